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

// store tracks whether Redis answers within a deadline, as the package documentation describes. It
// starts as up.
type store struct {
	clock
	deadline time.Duration
	changed  func(up bool, err error)

	down atomic.Bool
	last atomic.Int64 // the time of the last answer, 0 for none

	mu        sync.Mutex
	retired   bool          // reports have ended
	doubted   bool          // a prober has to find out whether Redis is up
	probing   bool          // a prober runs
	pause     time.Duration // between probes
	asked     int64         // the time of the latest request during an outage
	latest    subject       // of that request
	overdue   int64         // the time at which a probe counts as stuck
	reported  bool          // as down
	changes   []change
	reporting bool
}

// subject is what a probe calls: the limiter of a request, with the values of its context.
type subject struct {
	ctx     context.Context
	limiter Limiter
}

type change struct {
	up  bool
	err error
}

// clock counts nanoseconds since its start, from 1. It is monotonic.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

func (s *store) isDown() bool { return s.down.Load() }

// admits reports whether a request may ask Redis. While Redis is down, only the prober asks. If no
// prober runs, or if it is stuck in a call, a request asks in its place.
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

// stuck returns the nanoseconds after which a probe counts as stuck.
func (s *store) stuck() int64 { return 10 * int64(s.deadline) }

// answered records that Redis has answered now.
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
	unknownState verdict = iota // the call did not reach Redis
	alive                       // Redis has answered
	suspect                     // Redis may be down
)

// judge returns what the error of a call reveals about Redis.
func judge(err error) verdict {
	var state *rratelimiter.StateError
	if err == nil || errors.Is(err, rratelimiter.ErrNotInitialized) || errors.As(err, &state) {
		return alive
	}
	for _, neverSent := range []error{
		rratelimiter.ErrInvalidPermits, rratelimiter.ErrInvalidRate, rratelimiter.ErrInvalidName,
		rratelimiter.ErrInvalidOption,
		rratelimiter.ErrCrossSlot, rratelimiter.ErrNoClient, limit.ErrNotChargeable, errors.ErrUnsupported,
	} {
		if errors.Is(err, neverSent) {
			return unknownState
		}
	}
	return suspect
}

// failed records the error of a call.
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

// doubt makes a prober find out whether Redis answers. A denial may come from memory, and a caller
// may leave before an answer arrives.
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

// silent reports whether Redis has answered no call for the time of the deadline.
func (s *store) silent() bool {
	last := s.last.Load()
	return last == 0 || s.now()-last >= int64(s.deadline)
}

// become changes the state, starts the prober of an outage, and reports the change. The lock is
// held.
func (s *store) become(up bool, err error) {
	before := !s.down.Swap(!up)
	// A call that is answered records the answer before it reads the state, so one of the two
	// goroutines sees the other.
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

// retire ends all reports. It reports Redis as up if it was reported as down.
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
		s.changes = append(s.changes, change{up, err})
	}
}

// report calls the callback for all queued changes. Only one goroutine does this at a time, so that
// the changes come in order. The lock is held.
func (s *store) report() {
	if !s.reporting {
		s.reportAll()
	}
}

// reportAll reports all queued changes, even if a callback panics. The lock is held.
func (s *store) reportAll() {
	s.reporting = len(s.changes) > 0
	if !s.reporting {
		return
	}
	defer s.reportAll()
	next := s.changes[0]
	s.changes = s.changes[1:]
	s.callBack(next)
}

// callBack calls the callback without the lock. It locks again even if the callback panics.
func (s *store) callBack(c change) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.changed(c.up, c.err)
}
