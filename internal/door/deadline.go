package door

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a moment. It costs a timer only where somebody waits for its end: not for an answer from
// memory.
type deadline struct {
	context.Context // the request's
	at              time.Time

	mu    sync.Mutex
	timed context.Context // nil until somebody asks for Done
	end   context.CancelFunc
}

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
