package rratelimiter

import (
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// calling is what calls of the acquire script were given beside the time and the member.
type calling struct {
	keys  int
	guess string // none, where it ended before
}

// tapped keeps of each call of a script what it was given.
func tapped(b *bubble) *[]calling {
	var all []calling
	b.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if keys, given := scriptCall(command, args); len(keys) > 0 {
			c := calling{len(keys), "none"}
			if len(given) > 2 {
				c.guess = given[2]
			}
			all = append(all, c)
		}
		return false
	})
	return &all
}

// TestTheTimeLessTheInterval, which spares the script to make a text of it: it is told to whoever asks a second time, and again
// where another client has changed the interval; what is granted never goes by it.
func TestTheTimeLessTheInterval(t *testing.T) {
	inBubble(t, func(b *bubble) {
		asked := tapped(b)
		last := func() string { return (*asked)[len(*asked)-1].guess }
		less := func(interval time.Duration) string {
			return strconv.FormatInt(time.Now().Add(-interval).UnixMilli(), 10)
		}
		other := New(b.quickConn())
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
		for i, want := range []string{"none", "0", less(time.Minute), less(time.Minute)} {
			b.take(l, 1)
			assert.Equal(b, want, last(), i)
		}
		pass(time.Second)
		b.full(l, 10)
		assert.Equal(b, less(time.Minute), last(), "of a denial")

		require.NoError(b, other.Limiter("limiter").SetRate(b.Context(), Rate{Permits: 10, Interval: time.Second}, KeepState()))
		for _, want := range []string{less(time.Minute), less(time.Second)} {
			b.take(l, 1)
			assert.Equal(b, want, last())
		}
		b.take(l, 8)
		b.full(l, 1)
		require.NoError(b, other.Limiter("limiter").SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}, KeepState()))
		pass(2 * time.Second)
		b.full(l, 1) // by the wrong guess they would be free
		assert.Equal(b, less(time.Second), last())
		pass(time.Hour)
		b.take(l, 10)

		served := New(b.conn, WithServerTime()).Limiter("limiter")
		require.NoError(b, served.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Minute}))
		for _, want := range []string{"none", "0", "none", "none"} {
			b.take(served, 1)
			assert.Equal(b, want, last(), "nobody but the server knows the time")
		}
	})
}

// TestTheKeysOfALimiterThatAllShare are all that the script is given once it has told that the limiter is one. Where somebody else
// changes its type, it asks for the others, and answers by the new type.
func TestTheKeysOfALimiterThatAllShare(t *testing.T) {
	for name, opts := range map[string][]Option{"its own time": nil, "the server's": {WithServerTime()}} {
		inBubble(t, func(b *bubble) {
			asked := tapped(b)
			takes := func(l *Limiter, keys ...int) {
				b.Helper()
				before := len(*asked)
				b.take(l, 1)
				var given []int
				for _, c := range (*asked)[before:] {
					given = append(given, c.keys)
				}
				assert.Equal(b, keys, given, name)
			}
			other := New(b.quickConn()).Limiter("limiter")
			as := func(kind RateType) Rate { return Rate{Type: kind, Permits: 4, Interval: time.Minute} }
			l := b.limiter(as(Overall), opts...)
			takes(l, 5)
			takes(l, 5) // told
			takes(l, 3)
			takes(l, 3)
			b.full(l, 1)

			require.NoError(b, other.SetRate(b.Context(), as(PerClient)))
			takes(l, 3, 5)
			takes(l, 5)
			takes(l, 5)
			takes(l, 5)
			b.full(l, 1)
			b.take(other, 4)

			require.NoError(b, other.SetRate(b.Context(), as(Overall)))
			b.take(l, 1)
			decision, err := l.Take(b.Context(), 1) // tells, in any case
			require.NoError(b, err)
			assert.True(b, decision.Allowed)
			takes(l, 3)
			b.take(other, 1)
			b.full(l, 1)
		})
	}
}

// TestALimiterIsTakenForOneLikeTheOthers of its Client before it was asked for once: whoever opens a Limiter for each call pays no more
// than who keeps it. Once one of them is not one that all share, nothing is taken for granted.
func TestALimiterIsTakenForOneLikeTheOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		asked := tapped(b)
		c := New(b.conn)
		less := func(interval time.Duration) string {
			return strconv.FormatInt(time.Now().Add(-interval).UnixMilli(), 10)
		}
		set := func(name string, rate Rate) {
			_, err := New(b.conn).Limiter(name).TrySetRate(b.Context(), rate)
			require.NoError(b, err)
		}
		takes := func(name string, want ...calling) {
			b.Helper()
			before := len(*asked)
			b.take(c.Limiter(name), 1)
			assert.Equal(b, want, (*asked)[before:], name)
		}
		minute := Rate{Permits: 3, Interval: time.Minute}
		set("a", minute)
		set("b", minute)
		*asked = nil
		takes("a", calling{5, "none"})
		takes("a", calling{5, "none"})
		a := c.Limiter("a")
		b.full(a, 2)
		_, err := a.Take(b.Context(), 1) // is told
		require.NoError(b, err)
		takes("b", calling{3, less(time.Minute)})
		takes("b", calling{3, less(time.Minute)})
		b.full(c.Limiter("b"), 2)

		set("hour", Rate{Permits: 3, Interval: time.Hour})
		takes("hour", calling{3, less(time.Minute)}) // tells
		takes("hour", calling{3, less(time.Hour)})
		pass(2 * time.Minute)
		b.full(c.Limiter("hour"), 2)
		takes("b", calling{3, less(time.Hour)})
		takes("b", calling{3, less(time.Minute)})

		set("own", Rate{Type: PerClient, Permits: 3, Interval: time.Minute})
		takes("own", calling{3, less(time.Minute)}, calling{5, less(time.Minute)})
		takes("own", calling{5, "none"})
		takes("b", calling{5, "none"})
		b.full(c.Limiter("b"), 1)
		b.full(c.Limiter("own"), 2)
		pass(time.Minute)
		b.take(c.Limiter("own"), 3)
		l := c.Limiter("b")
		b.take(l, 1)
		b.take(l, 1)
		b.take(l, 1)
		assert.Equal(b, calling{3, less(time.Minute)}, (*asked)[len(*asked)-1], "who keeps one is told of it alone")
	})
}

// TestAnOwnPairEndsWhatIsTakenForGranted, whichever limiter is told of first, and for good: a round trip for nothing costs more than two keys.
func TestAnOwnPairEndsWhatIsTakenForGranted(t *testing.T) {
	inBubble(t, func(b *bubble) {
		asked := tapped(b)
		c := New(b.conn)
		for name, kind := range map[string]RateType{"shared": Overall, "own": PerClient} {
			_, err := c.Limiter(name).TrySetRate(b.Context(), Rate{Type: kind, Permits: 10, Interval: time.Minute})
			require.NoError(b, err)
		}
		for _, name := range []string{"own", "shared"} {
			_, err := c.Limiter(name).Take(b.Context(), 1) // is told
			require.NoError(b, err)
		}
		b.take(c.Limiter("shared"), 1)
		assert.Equal(b, calling{5, "none"}, (*asked)[len(*asked)-1])

		own := c.Limiter("own")
		_, err := own.Take(b.Context(), 1) // is told of it
		require.NoError(b, err)
		*asked = nil
		b.take(own, 1)
		assert.Equal(b, []calling{{5, strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10)}}, *asked)
	})
}

// TestALateReplyDoesNotUndoWhatACallWasTold: it was sent with all keys already, or is next.
func TestALateReplyDoesNotUndoWhatACallWasTold(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Type: PerClient, Permits: 10, Interval: time.Minute})
		p := (*protocol)(l)
		var batch engine.Batch
		keys := func() int {
			_, keys := p.Call(&batch)
			return len(keys)
		}
		p.learn(time.Minute.Milliseconds(), true)
		require.Equal(b, 3, keys())
		p.Arguments(&batch, time.Now())
		message, err := l.client.engine.Eval(b.Context(), acquireScript, l.keys[:3], batch.Args, nil)
		require.NoError(b, err)
		again, err := p.Answer(&batch, message)
		require.NoError(b, err)
		require.True(b, again)
		p.learn(time.Minute.Milliseconds(), true) // of a call from before the type changed
		assert.Equal(b, 5, keys())
	})
}
