package rratelimiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatADenialAnswers, and what it does not: at its very end, and for permits of which it knows nothing, Redis is asked.
func TestWhatADenialAnswers(t *testing.T) {
	returns := []returning{{2 * second, 3}, {5 * second, 4}}
	for name, test := range map[string]struct {
		d       *denial
		since   time.Duration
		permits int64
		want    time.Duration // RetryAfter; below 0 where Redis is asked
	}{
		"the fewest that were denied":   {&denial{limit: 10, permits: 2}, second, 2, second},
		"fewer":                         {&denial{limit: 10, permits: 2}, second, 1, -1},
		"behind the first return":       {&denial{limit: 10, permits: 2}, second, 4, 4 * second},
		"all that is known":             {&denial{limit: 10, permits: 2}, second, 7, 4 * second},
		"more than is known":            {&denial{limit: 10, permits: 2}, second, 8, -1},
		"with some free":                {&denial{limit: 10, permits: 2, free: 1}, second, 8, 4 * second},
		"with some free, and more":      {&denial{limit: 10, permits: 2, free: 1}, second, 9, -1},
		"with some free, in the first":  {&denial{limit: 10, permits: 2, free: 1}, second, 4, second},
		"where more than the rate went": {&denial{limit: 10, permits: 1, free: -2}, second, 1, second},
		"further":                       {&denial{limit: 10, permits: 1, free: -2}, second, 2, 4 * second},
		"all of it":                     {&denial{limit: 10, permits: 1, free: -2}, second, 6, -1},
		"the limit":                     {&denial{limit: 7, permits: 1}, second, 7, 4 * second},
		"above the limit":               {&denial{limit: 6, permits: 1}, second, 7, -1},
		"the last moment":               {&denial{limit: 10, permits: 1}, 2*second - 1, 1, 1},
		"its end":                       {&denial{limit: 10, permits: 1}, 2 * second, 1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(nil, WithDenialCache())
				l := named(c, "a")
				d := test.d
				d.returns, d.until, d.reset, d.asked = returns, 2*second, 6*second, time.Now()
				c.denials.byKey.Store("a", d)
				pass(test.since)
				got, denied := l.deny(test.permits)
				require.Equal(t, test.want >= 0, denied)
				if denied {
					assert.Equal(t, Decision{Limit: d.limit, Remaining: max(0, d.free), RetryAfter: test.want, ResetAfter: 6*second - test.since}, got)
				}
			})
		})
	}
}

// TestADenialIsKeptUntilItsEnd, by the fewest permits that were denied in a call, and not beyond.
func TestADenialIsKeptUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil, WithDenialCache())
		c.denials.caching.Store(cachingNo)
		l := named(c, "a")
		kept := func() *denial {
			found, ok := c.denials.byKey.Load("a")
			if !ok {
				return nil
			}
			return found.(*denial)
		}
		answer := func(denied, free int64, returns ...returning) *batch {
			return &batch{rate: 10, interval: 10 * second, denied: denied, free: free, returns: returns, reset: 5 * second, asked: time.Now()}
		}
		l.remember(answer(2, 1, returning{second, 1}, returning{5 * second, 9}), 0)
		require.NotNil(t, kept())
		assert.Equal(t, second, kept().until, "1 is free, so that 1 more is enough")
		pass(second - 1)
		assert.NotNil(t, kept())
		pass(1)
		synctest.Wait()
		assert.Nil(t, kept())

		// What ends at once is not worth it, and what is over already is worth nothing.
		l.remember(answer(2, 0, returning{checkEvery, 10}), 0)
		assert.Nil(t, kept())
		late := answer(2, 0, returning{second, 10})
		pass(2 * second)
		l.remember(late, 0)
		assert.Nil(t, kept())
		c.denials.keep("a", &denial{asked: late.asked, until: 2 * second}, 0)
		assert.Nil(t, kept())

		// Nor is what was known before this client changed the limiter.
		known := c.denials.version("a")
		c.poke("a")
		l.remember(answer(2, 0, returning{second, 10}), known)
		assert.Nil(t, kept())
		l.remember(answer(2, 0, returning{second, 10}), c.denials.version("a"))
		dropped := kept()
		require.NotNil(t, dropped)
		c.denials.drop("a", dropped)
		assert.Nil(t, kept())
		assert.False(t, dropped.end.Stop(), "its timer runs on")

		// The returns are the denial's own: those of the batch are used again.
		b := answer(2, 0, returning{second, 10})
		l.remember(b, c.denials.version("a"))
		b.returns[0].permits = 1
		assert.EqualValues(t, 10, kept().returns[0].permits)
		c.poke("a")
	})
}

// TestWhatChangesWhileADenialIsOnItsWayIsNotRemembered: the version that counts is that from before the call.
func TestWhatChangesWhileADenialIsOnItsWayIsNotRemembered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache())
		b.take(l, 10)
		b.latency.Store(int64(100 * time.Millisecond))
		time.AfterFunc(50*time.Millisecond, func() { l.client.poke("limiter") })
		b.full(l, 1)
		pass(10 * second)
		_, denied := l.deny(1)
		assert.False(b, denied)
		b.latency.Store(0)
		b.full(l, 1)
		pass(second)
		_, denied = l.deny(1)
		assert.True(b, denied)
	})
}

// TestTheFewestThatACallDeniedAreRemembered, where it denied several.
func TestTheFewestThatACallDeniedAreRemembered(t *testing.T) {
	for name, wants := range map[string][]int64{"first": {4, 5, 6}, "in the middle": {6, 4, 5}, "last": {6, 5, 4}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 10, Interval: time.Hour}, WithDenialCache())
				b.take(l, 7)
				b.latency.Store(int64(10 * time.Millisecond))
				crowd(b, 2+len(wants), func(i int) (Decision, error) {
					if i < 2 { // their calls are in flight while the others gather
						return l.Take(b.Context(), 11)
					}
					return l.Take(b.Context(), wants[i-2])
				})
				pass(second)
				_, denied := l.deny(3)
				assert.False(b, denied)
				for _, permits := range wants {
					_, denied = l.deny(permits)
					assert.True(b, denied, permits)
				}
			})
		})
	}
}
