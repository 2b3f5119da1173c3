package rratelimiter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
)

// TestCallersShareCalls: while as many calls as may be are in flight, everybody else goes in the next one, and each
// gets the answer that belongs to its place.
func TestCallersShareCalls(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100, Interval: time.Minute})
		other := l.wire.client.Limiter("limiter")
		before := b.Scripts.Load()
		b.Latency.Store(int64(10 * time.Millisecond))
		answers, errs := inmemory.Crowd(150, func(i int) (Decision, error) {
			if i%2 == 0 {
				return other.Take(b.Context(), 1)
			}
			return l.Take(b.Context(), 1)
		})
		for i := range answers {
			require.NoError(b, errs[i])
			assert.Equal(b, i < 100, answers[i].Allowed, "caller %d", i)
			assert.EqualValues(b, max(0, 99-i), answers[i].Remaining, "caller %d", i)
			assert.EqualValues(b, 100, answers[i].Limit)
		}
		assert.EqualValues(b, 3, b.Scripts.Load()-before, "script calls: two at once, and one for everybody else")
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		assert.LessOrEqual(b, len(members), 3, "the granted requests of a call are one member")
		assert.True(b, l.wire.client.engine.Idle())
	})
}

// TestALargeRequestDoesNotHoldUpSmallerOnes: who does not wait does not stand in line.
func TestALargeRequestDoesNotHoldUpSmallerOnes(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
		b.Latency.Store(int64(10 * time.Millisecond))
		wants := []int64{1, 1 /* their calls, and in the next: */, 1, 1, 1, 1, 1, 1, 5, 1, 11, 2, 1, 1}
		answers, errs := inmemory.Crowd(len(wants), func(i int) (Decision, error) { return l.Take(b.Context(), wants[i]) })
		var got string
		for i := range wants {
			switch {
			case errs[i] != nil:
				assert.ErrorIs(b, errs[i], ErrPermitsExceedRate)
				got += "x"
			case answers[i].Allowed:
				got += "g"
			default:
				got += "n"
			}
		}
		assert.Equal(b, "ggggggggngxngn", got)
	})
}

// TestACancelledCallerLosesNoPermits: what arrives for it goes back.
func TestACancelledCallerLosesNoPermits(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100, Interval: time.Hour})
		b.Latency.Store(int64(10 * time.Millisecond))
		before := b.Scripts.Load()
		_, errs := inmemory.Crowd(40, func(i int) (Decision, error) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			switch i % 8 {
			case 1:
				// The first of them while its call is in flight, the others before theirs begins.
				time.AfterFunc(5*time.Millisecond, cancel)
			case 5:
				// In a call that carries others too.
				time.AfterFunc(15*time.Millisecond, cancel)
			}
			return l.Take(ctx, 2)
		})
		for i, err := range errs {
			if i%4 == 1 {
				assert.ErrorIs(b, err, context.Canceled, "caller %d", i)
			} else {
				assert.NoError(b, err, "caller %d", i)
			}
		}
		pass(time.Second)
		b.Free(l, 100-2*30)
		calls := b.Scripts.Load() - before - 1
		assert.EqualValues(b, 3+2, calls, "the calls, and two releases of what came for those who had gone")
	})
}

// TestEachCallerHasTheErrorOfItsCall, and the next one works again.
func TestEachCallerHasTheErrorOfItsCall(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100, Interval: time.Minute})
		b.Latency.Store(int64(10 * time.Millisecond))
		b.Redis.SetError("LOADING Redis is loading the dataset in memory")
		_, errs := inmemory.Crowd(20, func(int) (Decision, error) { return l.Take(b.Context(), 1) })
		for _, err := range errs {
			assert.ErrorContains(b, err, "LOADING")
		}
		b.Redis.SetError("")
		b.Take(l, 100)
		assert.True(b, l.wire.client.engine.Idle())
	})
}

// TestRequestsThatNoCallCanAddUp go in several.
func TestRequestsThatNoCallCanAddUp(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
		b.Latency.Store(int64(10 * time.Millisecond))
		_, errs := inmemory.Crowd(20, func(i int) (Decision, error) {
			if i%2 == 0 {
				return l.Take(b.Context(), 1)
			}
			return l.Take(b.Context(), maxGrant)
		})
		for i, err := range errs {
			if i%2 == 0 {
				assert.NoError(b, err)
			} else {
				assert.ErrorIs(b, err, ErrPermitsExceedRate)
			}
		}
		b.Full(l, 1)
	})
}

// TestNothingIsKeptOfNamesThatAreNotInUse: a limiter for each of many users costs no memory here.
func TestNothingIsKeptOfNamesThatAreNotInUse(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := New(b.Conn)
		for i := range 100 {
			l := c.Limiter(fmt.Sprintf("user:%d", i))
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1, Interval: time.Second}))
			b.Take(l, 1)
			b.Full(l, 1)
			require.NoError(b, l.Acquire(b.Context(), 1))
		}
		synctest.Wait()
		assert.True(b, c.engine.Idle())
	})
}
