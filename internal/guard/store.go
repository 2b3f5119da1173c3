package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// store tracks whether Redis answers within a deadline, as the documentation of the package describes. It starts as up.
type store struct {
	clock
	patience time.Duration
	changed  func(up bool, err error)

	down atomic.Bool
	last atomic.Int64 // the time of the last answer, 0 for none

	mu       sync.Mutex
	retired  bool          // no change is reported any more
	doubted  bool          // whether Redis is up is to be found out
	probing  bool          // a prober runs
	pause    time.Duration // from one probe to the next
	asked    int64
	latest   subject // the latest request that found Redis down, at the time asked
	overdue  int64   // the time at which a probe has taken too long
	reported bool    // as down
	news     []change
	telling  bool
}

// subject is what a probe asks: the limiter of a request, with the values of its context.
type subject struct {
	ctx     context.Context
	limiter Limiter
}

type change struct {
	up  bool
	err error
}

// clock counts nanoseconds since its start, from 1 on. It never goes back.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

func (s *store) isDown() bool { return s.down.Load() }

// admits reports whether a request may ask Redis. While Redis is down, only the prober asks. If the prober has ended, since
// requests are rare, or is stuck in a call, a request asks in its place.
func (s *store) admits(ctx context.Context, l Limiter) bool {
	if !s.down.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.Load() {
		return true
	}
	s.note(ctx, l)
	if !s.probing {
		return true
	}
	late := s.asked >= s.overdue
	if late {
		s.overdue = s.asked + s.stuck()
	}
	return late
}

// note makes the limiter of a request the subject of the next probe. The lock is held.
func (s *store) note(ctx context.Context, l Limiter) {
	s.asked, s.latest = s.now(), subject{context.WithoutCancel(ctx), l}
}

// stuck is the time after which a probe counts as stuck, in nanoseconds.
func (s *store) stuck() int64 { return 10 * int64(s.patience) }

// answered notes that Redis has answered now.
func (s *store) answered() {
	s.last.Store(s.now())
	if s.down.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.become(true, nil)
	}
}

// verdict is what an error reveals about Redis.
type verdict int

const (
	unknownState verdict = iota // the call did not get to Redis
	alive                       // Redis has answered
	suspect
)

// judge returns what the error of a call reveals about Redis.
func judge(err error) verdict {
	var state *rratelimiter.StateError
	if err == nil || errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		return alive
	}
	for _, neverSent := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName, rratelimiter.ErrInvalidOption,
		rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient, limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverSent) {
			return unknownState
		}
	}
	return suspect
}

// failed notes the error of a call.
func (s *store) failed(ctx context.Context, l Limiter, err error) {
	switch judge(err) {
	case alive:
		s.answered()
	case suspect:
		if !s.down.Load() && !s.silent() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(ctx, l)
		s.become(false, err)
	}
}

// doubt lets a prober find out whether Redis answers: a denial may come from memory, and a caller may leave before an answer comes.
func (s *store) doubt(ctx context.Context, l Limiter) {
	if !s.down.Load() && !s.silent() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(ctx, l)
	s.doubted = !s.down.Load()
	s.probe()
}

// silent reports whether Redis has answered no call for as long as its deadline.
func (s *store) silent() bool {
	last := s.last.Load()
	return last == 0 || s.now()-last >= int64(s.patience)
}

// become changes the state, starts the prober of an outage, and reports the change. The lock is held.
func (s *store) become(up bool, err error) {
	before := !s.down.Swap(!up)
	// A call that is answered notes the answer before it reads the state: one of the two sees the other.
	if before && !up && !s.silent() {
		s.down.Store(false)
		return
	}
	if up {
		s.latest = subject{}
	}
	s.probe()
	if before != up {
		s.queue(up, err)
		s.report()
	}
}

// retire ends all reports. What was reported as down is reported as up.
func (s *store) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(true, nil)
	s.retired = true
	s.report()
}

// queue queues a change for the callback. The lock is held.
func (s *store) queue(up bool, err error) {
	if s.changed != nil && !s.retired && s.reported == up {
		s.reported = !up
		s.news = append(s.news, change{up, err})
	}
}

// report calls the callback for all queued changes. One goroutine at a time does, so that all changes come in order. The lock
// is held.
func (s *store) report() {
	if !s.telling {
		s.tellAll()
	}
}

// tellAll reports all queued changes, also after a callback that panics. The lock is held.
func (s *store) tellAll() {
	s.telling = len(s.news) > 0
	if !s.telling {
		return
	}
	defer s.tellAll()
	next := s.news[0]
	s.news = s.news[1:]
	s.tell(next)
}

// tell calls the callback without the lock, and takes it again, also after a callback that panics.
func (s *store) tell(c change) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.changed(c.up, c.err)
}
