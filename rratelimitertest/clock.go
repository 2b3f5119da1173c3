package rratelimitertest

import (
	"fmt"
	"testing/synctest"
	"time"
)

// Clock is the clock of an Env: that of its testing/synctest bubble. It is safe for concurrent use.
type Clock struct {
	// advancing has an element during an Advance. It is no mutex, for which a goroutine in a bubble
	// would not wait durably.
	advancing chan struct{}
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
func (c *Clock) Now() time.Time { return time.Now().UTC() }

// Advance sleeps, and returns when the waiting callers whose permits have returned are granted them.
// Concurrent calls move the clock one after another; those of two Clocks in one bubble overlap. Call no
// synctest.Wait at the same time.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("rratelimitertest: Advance(%v), want 0 or more", d))
	}
	c.advancing <- struct{}{}
	defer func() { <-c.advancing }()
	time.Sleep(d)
	for reason := wait(); reason != nil; reason = wait() {
		if reason != anotherWaits {
			panic(reason)
		}
		time.Sleep(time.Nanosecond) // so that the Wait of the other goroutine returns
	}
}
