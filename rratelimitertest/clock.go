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
func inBubble() bool {
	reason := wait()
	return reason == nil || reason == anotherWaits
}

// wait waits for the other goroutines of the bubble. It returns the reason of a panic of Wait.
func wait() (reason any) {
	defer func() { reason = recover() }()
	synctest.Wait()
	return nil
}

// anotherWaits is the reason if another goroutine of the bubble is in Wait.
const anotherWaits = "wait already in progress"

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
		for reason := wait(); reason != nil; reason = wait() {
			if reason != anotherWaits {
				panic(reason)
			}
			time.Sleep(time.Nanosecond) // so that the Wait of the other goroutine returns
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
