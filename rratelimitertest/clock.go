package rratelimitertest

import (
	"context"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Clock is the clock of an Env. It is safe for concurrent use.
type Clock struct {
	// advancing has an element during an Advance. It is no mutex, for which a goroutine in a bubble
	// would not wait durably.
	advancing chan struct{}
	bubble    bool // the clock of a synctest bubble; the fields below are for the other kind

	mu     sync.Mutex
	now    time.Time
	server *miniredis.Miniredis
	flush  func(context.Context) error // releases the leases of the Client
	moved  func()                      // has the Client ask Redis for its waiting callers
}

func newClock() *Clock {
	return &Clock{
		advancing: make(chan struct{}, 1), bubble: inBubble(), now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// inBubble reports whether the goroutine is in a synctest bubble. Outside one, Wait panics. It also
// panics if another goroutine of the bubble waits.
func inBubble() (in bool) {
	defer func() {
		reason := recover()
		in = reason == nil || reason == "wait already in progress"
	}()
	synctest.Wait()
	return true
}

// settled waits for the other goroutines of the bubble, unless another one waits already.
func settled() (ok bool) {
	defer func() {
		if reason := recover(); reason != nil && reason != "wait already in progress" {
			panic(reason)
		}
	}()
	synctest.Wait()
	return true
}

// Now returns the time, in UTC.
func (c *Clock) Now() time.Time {
	if c.bubble {
		return time.Now().UTC()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward, and returns when the waiting callers whose permits have returned
// are granted them. The package documentation describes what else follows the clock. Concurrent
// calls move it one after another; those of two Clocks in one bubble overlap. In a bubble, call no
// synctest.Wait at the same time.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("rratelimitertest: Advance(%v), want 0 or more", d))
	}
	c.advancing <- struct{}{}
	defer func() { <-c.advancing }()
	if c.bubble {
		time.Sleep(d)
		for !settled() {
			time.Sleep(time.Nanosecond) // so that the Wait of another goroutine returns
		}
		return
	}
	_ = c.flush(context.Background()) // if Redis fails, the permits return when they expire
	c.set(c.Now().Add(d))
	c.moved()
}

// set sets the time, of the server too.
func (c *Clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	c.server.SetTime(now)
}
