package door

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// deadline is a context that ends at a moment. It costs a timer only where somebody waits for its end: not for an answer from
// memory.
type deadline struct {
	context.Context // the request's
	*moment

	mu    sync.Mutex
	timed context.Context // nil until somebody asks for Done
	end   context.CancelFunc
}

var _ engine.Bounded = (*deadline)(nil)

// Ends is the two ends of the context, that of the request and the moment.
func (c *deadline) Ends() (gone, late <-chan struct{}) { return c.Context.Done(), c.reached() }

func (c *deadline) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

func (c *deadline) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.end = context.WithDeadline(c.Context, c.at)
	}
	return c.timed.Done()
}

func (c *deadline) Err() error {
	err := c.inner().Err()
	if err == nil && !time.Now().Before(c.at) {
		return context.DeadlineExceeded
	}
	return err
}

func (c *deadline) Value(key any) any { return c.inner().Value(key) }

func (c *deadline) inner() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		return c.Context
	}
	return c.timed
}

// stop lets go of the timer. Whoever still waits is told that it has ended.
func (c *deadline) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		c.end()
	}
}

// moment is when the deadlines of many requests are. They share a timer: one for each costs as much as all the rest of a door.
type moment struct {
	at   time.Time
	once sync.Once
	late chan struct{} // nil until somebody asks for it
}

// reached is closed at the moment.
func (m *moment) reached() <-chan struct{} {
	m.once.Do(func() {
		m.late = make(chan struct{})
		time.AfterFunc(time.Until(m.at), func() { close(m.late) })
	})
	return m.late
}

// moments gives requests their deadline.
type moments struct {
	patience time.Duration
	latest   atomic.Pointer[moment]
}

// sharing is the part of its patience that a request may lose, so that it shares its moment with those just before it.
const sharing = 64

// next is the deadline of a request that comes now.
func (s *moments) next() *moment {
	at := time.Now().Add(s.patience)
	if m := s.latest.Load(); m != nil && !m.at.After(at) && at.Sub(m.at) < s.patience/sharing {
		return m
	}
	m := &moment{at: at}
	s.latest.Store(m)
	return m
}
