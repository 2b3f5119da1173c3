package door

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// store is whether Redis answers, as the package's documentation says. The zero store is up.
type store struct {
	clock
	patience time.Duration
	changed  func(up bool, err error)

	down atomic.Bool
	last atomic.Int64 // when Redis was last seen to answer; 0 for never

	mu      sync.Mutex
	probing turn // of the request that finds out, none for nobody
	turns   turn
	next    int64    // no request asks before, while the store is down
	news    []change // that nobody has been told yet
	telling bool
}

type change struct {
	up  bool
	err error
}

// clock counts nanoseconds since its start, from 1 on. It never goes back.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

// turn is a request's leave to ask Redis.
type turn uint64

const (
	none   turn = iota // it may not
	normal             // the store is up
	probes             // from here on: it finds out whether the store is up again, and tells when it has
)

// turn gives a request its turn.
func (s *store) turn() turn {
	if !s.down.Load() {
		return normal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.Load() {
		return normal
	}
	now := s.now()
	if s.probing != none || now < s.next {
		return none
	}
	s.turns++
	s.probing, s.next = probes+s.turns, now+int64(s.patience)
	return s.probing
}

// probed ends a turn, so that another request can find out.
func (s *store) probed(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probing == t {
		s.probing = none
	}
}

func (s *store) isDown() bool { return s.down.Load() }

// answered says that Redis has answered just now.
func (s *store) answered() {
	s.last.Store(s.now())
	if s.down.Load() {
		s.become(true, nil)
	}
}

// judge learns of the store by the error of a call.
func (s *store) judge(err error) {
	var state *rratelimiter.StateError
	if errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		s.answered() // by what it holds
		return
	}
	for _, neverAsked := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName, rratelimiter.ErrInvalidOption,
		rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient, limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverAsked) {
			return
		}
	}
	if s.silent() {
		s.become(false, err)
	}
}

// silent says whether Redis has answered nobody for as long as it may.
func (s *store) silent() bool {
	last := s.last.Load()
	return last == 0 || s.now()-last >= int64(s.patience)
}

// become changes the state, and tells of it. One request at a time tells, so that all is told in order.
func (s *store) become(up bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down.Load() != up {
		return
	}
	s.down.Store(!up)
	// Whoever has an answer notes that first and looks whether the store is down then: one of the two sees the other.
	if !up && !s.silent() {
		s.down.Store(false)
		return
	}
	s.probing = none
	if s.changed == nil {
		return
	}
	s.news = append(s.news, change{up, err})
	if !s.telling {
		s.tellAll()
	}
}

// tellAll tells all that nobody has been told yet, also behind a callback that panics. The lock is held.
func (s *store) tellAll() {
	s.telling = len(s.news) > 0
	if !s.telling {
		return
	}
	defer s.tellAll()
	told := s.news[0]
	s.news = s.news[1:]
	s.tell(told)
}

// tell calls the callback without the lock, and has it again afterwards, also where the callback panics.
func (s *store) tell(c change) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.changed(c.up, c.err)
}

// proves says whether Redis answers a call that only reads. It has a deadline of its own: a refusal that did come from Redis may
// have used up most of the request's. A limiter without such a call is taken at its word.
func (g *Guard) proves(ctx context.Context, l Limiter) bool {
	c := &deadline{Context: ctx, moment: g.moments.next()}
	defer c.stop()
	var err error
	switch l := l.(type) {
	case interface {
		Peek(ctx context.Context) ([]rratelimiter.Decision, error)
	}:
		_, err = l.Peek(c)
	case interface {
		AvailablePermits(ctx context.Context) (int64, error)
	}:
		_, err = l.AvailablePermits(c)
	}
	return err == nil
}
