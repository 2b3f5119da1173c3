package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// idle is how long a prober goes on after the latest request that found Redis down.
const idle = time.Minute

// rarest is the longest time from one probe to the next, unless the deadline is longer: a server that hangs collects probes until
// rueidis gives its connection up.
const rarest = time.Second

// probe starts a prober if Redis is down, or may be, and none runs. The lock is held.
func (s *store) probe() {
	if (s.down.Load() || s.doubted) && !s.probing && !s.retired {
		s.probing, s.pause, s.overdue = true, s.patience, s.now()+s.stuck()
		go s.probeOnce()
	}
}

// probeOnce asks Redis once. A timer calls it again after a pause, until Redis answers or requests have become rare.
func (s *store) probeOnce() {
	begin, returned := time.Now(), false
	defer func() {
		if !returned { // a callback of the program has ended the goroutine
			s.mu.Lock()
			s.probing = false
			s.mu.Unlock()
		}
	}()
	if on, pause := s.next(); pause > 0 {
		s.heard(s.look(on))
		time.AfterFunc(pause-time.Since(begin), s.probeOnce)
	}
	returned = true
}

// next returns the subject of the next probe and the time to the one after it, or 0 if there is none: then the prober has ended.
// That time doubles with each probe.
func (s *store) next() (subject, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.probing = (s.down.Load() || s.doubted) && !s.retired && s.latest.limiter != nil && now-s.asked < int64(idle); !s.probing {
		return subject{}, 0
	}
	pause := s.pause
	s.pause = max(s.patience, min(2*pause, rarest))
	s.overdue = now + int64(pause) + s.stuck()
	return s.latest, pause
}

// heard notes the result of a probe. What a callback panics with is dropped: it was called by no request.
func (s *store) heard(err error) {
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

// look asks Redis by a call of a limiter that takes nothing. A limiter without such a call gives a permit, and takes it back if it
// can. A limiter that panics has not asked.
func (s *store) look(on subject) (err error) {
	ctx, cancel := context.WithTimeout(on.ctx, s.patience)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("rratelimiter: a probe of Redis panicked: %v", reason)
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
			_ = settle(ctx, on.limiter, -1) // a limiter that cannot take it back has granted it
		}
	}
	return err
}
