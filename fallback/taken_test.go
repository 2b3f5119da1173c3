package fallback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestTaken_RedisAway_ModeDecides: what the share grants is settled with the share.
func TestTaken_RedisAway_ModeDecides(t *testing.T) {
	for mode, want := range map[limit.FailureMode]struct{ first, second, third bool }{
		limit.Closed: {}, limit.Open: {true, true, true}, limit.Local(0.4): {true, false, true},
	} {
		runEach(t, func(t *testing.T, f *redistest.Fixture, limiter limit.Joinable) {
			l := New(limiter, Deadline(deadline), OnFailure(mode))
			end := slow(f)
			take := func(permits int64) (*limit.Taken, bool) {
				taken := new(limit.Taken)
				d, err := taken.Take(t.Context(), permits, l)
				if err != nil {
					assert.ErrorIs(t, err, ErrClosed)
				}
				return taken, err == nil && d.Allowed
			}
			taken, ok := take(2)
			assert.Equal(t, want.first, ok)
			_, ok = take(1)
			assert.Equal(t, want.second, ok)
			begin := time.Now()
			require.NoError(t, taken.Settle(t.Context(), 1))
			assert.Zero(t, time.Since(begin), "no call to Redis")
			taken, ok = take(1)
			assert.Equal(t, want.third, ok)
			require.NoError(t, taken.Settle(t.Context(), 3))
			end()
			time.Sleep(2 * time.Second)
		})
	}
}

// TestTaken_Redis_IsSettled with the permits of the grant, also after a wait.
func TestTaken_Redis_IsSettled(t *testing.T) {
	run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		inner := limit.New(client, "tokens", minute)
		l := New(inner, Deadline(deadline))
		assert.Equal(t, "tokens", l.Name())
		left := func() int64 {
			all := redistest.Peek(t, inner)
			return all[0].Remaining
		}
		var taken limit.Taken
		require.NoError(t, taken.Acquire(t.Context(), 8, l))
		require.NoError(t, taken.Settle(t.Context(), 3))
		assert.EqualValues(t, 7, left())
		d, err := taken.Take(t.Context(), 2, l)
		require.NoError(t, err)
		assert.True(t, d.Allowed)
		require.NoError(t, taken.Settle(t.Context(), 6))
		assert.EqualValues(t, 1, left())
		d, err = taken.Take(t.Context(), 2, l)
		require.NoError(t, err)
		assert.False(t, d.Allowed)
		d, err = taken.TakeWithin(t.Context(), 9, time.Hour, l)
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 1, ResetAfter: time.Minute}, d)
		require.NoError(t, taken.Settle(t.Context()))
		assert.EqualValues(t, 10, left())

		for _, limiters := range [][]limit.Takeable{{l, inner}, {l, l}} {
			err := taken.Acquire(t.Context(), 1, limiters...)
			assert.ErrorIs(t, err, rratelimiter.ErrInvalidOption, "%v", err)
		}
		for _, none := range []limit.Takeable{New(nil), nil, new(Limiter), new(limit.Limiter), (*limit.Limiter)(nil)} {
			require.ErrorIs(t, taken.Acquire(t.Context(), 1, none), rratelimiter.ErrNoClient)
		}
		assert.Empty(t, New(nil).Name())
	})
}

// TestTaken_InFlight_PlacesReturn to Redis, and while it is away to the share, whatever the final cost is.
func TestTaken_InFlight_PlacesReturn(t *testing.T) {
	run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		inner := limit.New(client, "model", limit.SlidingLog{Permits: 1000, Interval: time.Hour},
			limit.InFlight{Permits: 8, Lease: time.Hour})
		l := New(inner, Deadline(deadline), OnFailure(limit.Local(0.5)))
		for _, away := range []bool{false, true} {
			if away {
				defer slow(f)()
			}
			for _, actual := range []int64{0, 1, 4, 9} {
				var taken limit.Taken
				d, err := taken.Take(t.Context(), 4, l)
				require.NoError(t, err)
				require.True(t, d.Allowed, "away %t, before %d", away, actual)
				require.NoError(t, taken.Settle(t.Context(), actual))
			}
			var taken limit.Taken
			require.NoError(t, taken.Acquire(t.Context(), 4, l))
			most := int64(8)
			if away {
				most = 4
			}
			ok, _, err := l.TryAcquireWithin(t.Context(), most-3, 10*time.Second)
			assert.False(t, ok)
			assert.NoError(t, err)
			time.AfterFunc(700*time.Millisecond, func() { assert.NoError(t, taken.Settle(t.Context())) })
			ok, _, err = l.TryAcquireWithin(t.Context(), most, 2*time.Second)
			assert.True(t, ok, "away %t", away)
			assert.NoError(t, err)
			if !away {
				require.NoError(t, inner.Release(t.Context(), most))
			}
		}
	})
}
