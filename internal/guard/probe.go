package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// probeIdle is the time after the latest request during an outage for which a prober continues.
const probeIdle = time.Minute

// maxProbePause is the longest time between probes, unless the deadline is longer. Probes of a server that
// hangs pile up until rueidis closes its connection.
const maxProbePause = time.Second

// probe starts a prober if Redis is down, or may be, and no prober runs. The lock is held.
func (s *store) probe() {
	if (s.down.Load() || s.doubted) && !s.probing && !s.retired {
		s.probing, s.pause, s.overdue = true, s.deadline, s.now()+s.stuck()
		go s.probeOnce()
	}
}

// probeOnce asks Redis once. A timer calls it again after a pause, until Redis answers or no
// request has come for a minute.
func (s *store) probeOnce() {
	begin, returned := time.Now(), false
	defer func() {
		if !returned { // a callback has ended the goroutine
			s.mu.Lock()
			s.probing = false
			s.mu.Unlock()
		}
	}()
	if on, pause := s.next(); pause > 0 {
		s.observe(s.ask(on))
		time.AfterFunc(pause-time.Since(begin), s.probeOnce)
	}
	returned = true
}

// next returns the subject of the next probe and the time until the one after it. That time doubles
// with each probe. If next returns 0, the prober ends.
func (s *store) next() (subject, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.probing = (s.down.Load() ||
		s.doubted) && !s.retired && s.latest.limiter != nil && now-s.asked < int64(probeIdle); !s.probing {
		return subject{}, 0
	}
	pause := s.pause
	s.pause = max(s.deadline, min(2*pause, maxProbePause))
	s.overdue = now + int64(pause) + s.stuck()
	return s.latest, pause
}

// observe records the result of a probe. A panic of the callback is dropped, since no request made
// the call.
func (s *store) observe(err error) {
	defer func() { _ = recover() }()
	s.mu.Lock()
	doubted := s.doubted
	s.doubted = false
	if errors.Is(err, rueidis.ErrClosing) {
		s.latest = subject{} // the client is closed: no other probe
	}
	s.mu.Unlock()
	switch judge(err) {
	case alive:
		s.answered()
	case suspect:
		if doubted {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.become(false, err)
		}
	}
}

// ask asks Redis with a call of a limiter that takes no permits. For a limiter without such a
// call, it takes a permit, and releases it if possible. A panic of the limiter becomes an error.
func (s *store) ask(on subject) (err error) {
	ctx, cancel := context.WithTimeout(on.ctx, s.deadline)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("guard: a probe of Redis panicked: %v", reason)
		}
	}()
	switch l := on.limiter.(type) {
	case interface {
		Peek(ctx context.Context) ([]rratelimiter.Decision, error)
	}:
		_, err = l.Peek(ctx)
	case interface {
		AvailablePermits(ctx context.Context) (int64, error)
	}:
		_, err = l.AvailablePermits(ctx)
	default:
		var d rratelimiter.Decision
		if d, err = on.limiter.Take(ctx, 1); err == nil && d.Allowed {
			_ = settle(ctx, on.limiter, -1) // without Release the permit stays taken
		}
	}
	return err
}
