package limit

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// takeAll takes permits, which are free.
func takeAll(t testing.TB, taken *Taken, permits int64, limiters ...Takeable) {
	t.Helper()
	d, err := taken.Take(t.Context(), permits, limiters...)
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// lossyConn is a connection that loses the next reply, and breaks.
type lossyConn struct {
	net.Conn
	lose *atomic.Int32
}

func (c lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.lose.Add(-1) >= 0 {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// lossyClient returns a Client that loses so many replies once lose is set.
func lossyClient(t *testing.T, f *fixture, opts ...rratelimiter.Option) (client *rratelimiter.Client,
	lose *atomic.Int32) {
	lose = new(atomic.Int32)
	conn, err := memredis.ConnectThrough(f.Redis, func(conn net.Conn) net.Conn { return lossyConn{conn, lose} })
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return rratelimiter.New(conn, opts...), lose
}

// TestTaken_Redisson_CannotOwe: it keeps what was taken, and the others are charged.
func TestTaken_Redisson_CannotOwe(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 20, Interval: time.Hour})
		shared := f.client.Limiter("{x}:shared", rate)
		own := New(f.client, "{x}:own", FixedWindow{20, time.Hour, false})
		var taken, alone Taken
		takeAll(t, &taken, 4, shared, own)
		err := taken.Settle(t.Context(), 6)
		require.ErrorIs(t, err, ErrNotChargeable)
		assert.ErrorContains(t, err, `"{x}:shared + {x}:own"`)
		require.NoError(t, taken.Settle(t.Context(), 0))
		assert.Equal(t, []int64{16, 14}, []int64{redistest.Available(t, shared), remainingOf(t, own)[0]})
		takeAll(t, &alone, 1, shared)
		require.ErrorIs(t, alone.Settle(t.Context(), 2), ErrNotChargeable)
	})
}

// TestTaken_Prefetch_SettlesOnce: a refund of prefetched permits leaves the prefetch as it is, and a charge
// returns it before.
func TestTaken_Prefetch_SettlesOnce(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		client, lose := lossyClient(t, f, rratelimiter.WithPrefetch(time.Second))
		l := New(client, "x", FixedWindow{1000, time.Hour, false})
		for range 50 { // enough demand for a prefetch
			require.True(t, redistest.Result(t, l.TryAcquire, 1))
		}
		for _, c := range []struct {
			actual int64
			lost   int32 // of a charge, that would be the reply to the return of a prefetch
		}{{1, 2}, {6, 0}} {
			taken := new(Taken)
			takeAll(t, taken, 3, l)
			lose.Store(c.lost)
			require.NoError(t, taken.Settle(t.Context(), c.actual))
		}
		require.NoError(t, client.Flush(t.Context()))
		assert.EqualValues(t, 1000-50-1-6, redistest.Peek(t, l)[0].Remaining)
	})
}

// TestTaken_Denied_HoldsWhatItHeld: with several calls, each number is of one call.
func TestTaken_Denied_HoldsWhatItHeld(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		requests := New(f.client, "{x}:requests", FixedWindow{10, time.Hour, false})
		tokens := New(f.client, "{x}:tokens", TokenBucket{100, 100, time.Hour})
		day := NewKeyed(f.client, "{x}", FixedWindow{50, 24 * time.Hour, false}).Limiter("day")
		taken := new(Taken)
		takeAll(t, taken, 1, requests)
		require.ErrorIs(t, redistest.Err(taken.Take(t.Context(), 60, tokens, day)), rratelimiter.ErrPermitsExceedRate)
		takeAll(t, taken, 40, tokens, day)
		d, err := taken.Take(t.Context(), 11, tokens, day)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Positive(t, d.RetryAfter)
		require.Equal(t, []int64{9, 60, 10}, remainingOf(t, requests, tokens, day))

		for _, invalid := range [][]int64{{1, 30, 0}, {-1}, {1, 1 << 62}} {
			require.ErrorIs(t, taken.Settle(t.Context(), invalid...), rratelimiter.ErrInvalidPermits, invalid)
		}
		require.NoError(t, taken.Settle(t.Context(), 1, 30))
		assert.Equal(t, []int64{9, 70, 20}, remainingOf(t, requests, tokens, day))
		require.NoError(t, new(Taken).Settle(t.Context(), 7))

		takeAll(t, taken, 1, requests)
		takeAll(t, taken, 20, tokens, day)
		require.NoError(t, taken.Settle(t.Context()), "all back")
		assert.Equal(t, []int64{9, 70, 20}, remainingOf(t, requests, tokens, day))
		require.ErrorIs(t, redistest.Err(taken.Take(t.Context(), 1)), rratelimiter.ErrInvalidRate, "no limiters")
	})
}

// TestTaken_TakeWithin_WaitsAtMostSoLong, and settles what it was granted.
func TestTaken_TakeWithin_WaitsAtMostSoLong(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "x", FixedWindow{10, time.Minute, false})
		f.RequireGranted(l, 8)
		var taken Taken
		for _, timeout := range []time.Duration{-1, 0, time.Second} {
			d, err := taken.TakeWithin(t.Context(), 3, timeout, l)
			require.NoError(t, err)
			want := rratelimiter.Decision{Limit: 10, Remaining: 2, RetryAfter: time.Minute, ResetAfter: time.Minute}
			assert.Equal(t, want, d, timeout)
		}
		d, err := taken.TakeWithin(t.Context(), 3, time.Hour, l)
		require.NoError(t, err)
		assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 7, ResetAfter: time.Minute}, d)
		require.NoError(t, taken.Settle(t.Context()))
		assert.EqualValues(t, 10, redistest.Peek(t, l)[0].Remaining)
	})
}

// TestTaken_OneFails_TheRestLater: a later Settle uses the numbers of the first one. A script that stops
// with an error of Redis has settled nothing.
func TestTaken_OneFails_TheRestLater(t *testing.T) {
	const key = "{bad}:window:3600000"
	for name, spoil := range map[string]func(f *fixture) error{
		"other text": func(f *fixture) error { return f.Redis.Set(key, "broken") },
		"other type": func(f *fixture) error {
			f.Redis.Del(key)
			return redistest.Err(f.Redis.Lpush(key, "x"))
		},
	} {
		for _, actual := range []int64{3, 7} {
			runWithRedis(t, fmt.Sprint(name, actual), func(t *testing.T, f *fixture) {
				window := FixedWindow{10, time.Hour, false}
				good, bad := New(f.client, "good", window), New(f.client, "bad", window)
				taken := new(Taken)
				takeAll(t, taken, 4, good)
				takeAll(t, taken, 4, bad)
				state, err := f.Redis.Get(key)
				require.NoError(t, err)
				require.NoError(t, spoil(f))
				err = taken.Settle(t.Context(), 1, actual)
				require.ErrorContains(t, err, `"bad"`)
				assert.NotContains(t, err.Error(), `"good"`)
				assert.EqualValues(t, 9, redistest.Peek(t, good)[0].Remaining)
				require.ErrorIs(t, redistest.Err(taken.Take(t.Context(), 1, good)), errUnsettled)

				f.Redis.Del(key)
				require.NoError(t, f.Redis.Set(key, state))
				f.Redis.SetTTL(key, time.Hour)
				require.NoError(t, taken.Settle(t.Context()))
				assert.EqualValues(t, 9, redistest.Peek(t, good)[0].Remaining)
				assert.EqualValues(t, 10-actual, redistest.Peek(t, bad)[0].Remaining)
			})
		}
	}
}

// TestTaken_RedisAway_TriesForAWhile: then again, but not when Redis may have forgotten.
func TestTaken_RedisAway_TriesForAWhile(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		client, lose := lossyClient(t, f)
		l := New(client, "x", FixedWindow{10, time.Hour, false})
		for _, after := range []time.Duration{settleAgain - settleFor, settleAgain} {
			require.NoError(t, l.Reset(t.Context()))
			taken := new(Taken)
			takeAll(t, taken, 4, l)
			lose.Store(1 << 20)
			begin := time.Now()
			require.ErrorContains(t, taken.Settle(t.Context(), 2), `"x"`)
			assert.InDelta(t, settleFor, time.Since(begin), float64(settleFor)/10)
			lose.Store(0)
			time.Sleep(after)
			err := taken.Settle(t.Context())
			if after < settleAgain {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errTooOld)
			}
			assert.EqualValues(t, 8, redistest.Peek(t, l)[0].Remaining)
			require.NoError(t, taken.Settle(t.Context()))
		}
		assert.LessOrEqual(t, settleAgain+settleFor, redisx.OnceFor)
	})
}

// TestTaken_TakeUnderWayWhileSettleFails_IsReleased by the next Settle.
func TestTaken_TakeUnderWayWhileSettleFails_IsReleased(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		conn, latency := f.slowReplies()
		client := rratelimiter.New(conn)
		a, b := New(client, "a", FixedWindow{10, time.Hour, false}), New(client, "b", FixedWindow{10, time.Hour, false})
		taken := new(Taken)
		takeAll(t, taken, 5, a)
		latency.Store(int64(2 * settleFor))
		var all sync.WaitGroup
		all.Go(func() { takeAll(t, taken, 4, b) })
		time.Sleep(time.Millisecond)
		require.Error(t, taken.Settle(t.Context(), 2))
		latency.Store(0)
		all.Wait()
		require.NoError(t, taken.Settle(t.Context()))
		assert.EqualValues(t, 8, redistest.Peek(t, a)[0].Remaining)
		assert.EqualValues(t, 10, redistest.Peek(t, b)[0].Remaining)
	})
}

// TestTaken_HookPanicsInSettle_CallerGetsIt: the other takes are settled, and another Settle does the rest.
func TestTaken_HookPanicsInSettle_CallerGetsIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		panics := true
		client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
				if d.Charged && d.Name == "a" && panics {
					panic("a hook")
				}
			},
		}))
		a := New(client, "a", FixedWindow{9, time.Hour, false})
		b := New(client, "b", FixedWindow{9, time.Hour, false}, InFlight{5, time.Hour, false})
		var taken Taken
		takeAll(t, &taken, 1, a)
		takeAll(t, &taken, 1, b)
		assert.PanicsWithValue(t, "a hook", func() { _ = taken.Settle(t.Context(), 3, 4) })
		assert.Equal(t, []int64{5, 5}, remainingOf(t, b))
		panics = false
		require.NoError(t, taken.Settle(t.Context()))
		assert.Equal(t, []int64{6}, remainingOf(t, a))
		require.NoError(t, taken.Settle(t.Context()))
		assert.Equal(t, []int64{6}, remainingOf(t, a))
	})
}

// TestTaken_ManyCalls_AreExact: calls that share grants settle at the same time, for less, the same and
// more, while replies are lost. Their contexts have ended. Some settle again later. Each refund of a bucket
// leaves out what has come back since its grant. So the two buckets may lack a part of a permit.
func TestTaken_ManyCalls_AreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Deep(2, 10)) {
		runWithRedis(t, fmt.Sprint("seed ", seed), func(t *testing.T, f *fixture) {
			random := rand.New(rand.NewPCG(seed, 0))
			client, lose := lossyClient(t, f, []rratelimiter.Option{rratelimiter.WithServerTime()}[:seed%2]...)
			ended, end := context.WithCancel(t.Context())
			end()
			rate := rratelimiter.Rate{Permits: 1000, Interval: time.Hour}
			shared := client.Limiter("{x}:shared", rratelimiter.InitialRate(rate))
			own := New(client, "{x}:own", FixedWindow{1000, time.Hour, false}, SlidingWindow{1000, time.Hour, 0},
				SlidingLog{1000, time.Hour}, TokenBucket{1000, 1, 1000 * time.Hour}, LeakyBucket{1000, 1, 1000 * time.Hour},
				InFlight{1000, time.Hour, false})
			var calls [40]struct {
				Taken
				takes, uses int64
				limiters    []Takeable
			}
			f.Latency.Store(int64(time.Millisecond))
			wantOwn, wantShared := int64(1000), int64(1000)
			var all sync.WaitGroup
			for i := range calls {
				c := &calls[i]
				c.takes, c.limiters = 1+random.Int64N(9), []Takeable{own}
				c.uses = random.Int64N(2 * c.takes)
				if random.IntN(2) == 0 {
					c.uses, c.limiters = random.Int64N(c.takes+1), append(c.limiters, shared)
					wantShared -= c.uses
				}
				wantOwn -= c.uses
				all.Go(func() { takeAll(t, &c.Taken, c.takes, c.limiters...) })
			}
			all.Wait()
			for i := range calls {
				all.Go(func() { _ = calls[i].Settle(ended, calls[i].uses) })
			}
			for range 50 {
				lose.Store(random.Int32N(3))
				time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			}
			lose.Store(0)
			all.Wait()
			for i := range calls {
				require.NoError(t, calls[i].Settle(t.Context(), 99))
			}
			const windows, inFlight = 3, 5
			for i, d := range redistest.Peek(t, own) {
				switch {
				case i == inFlight:
					assert.EqualValues(t, 1000, d.Remaining, "all has been returned")
				case i >= windows && d.Remaining < wantOwn:
					assert.Equal(t, wantOwn-1, d.Remaining)
				default:
					assert.Equal(t, wantOwn, d.Remaining)
				}
			}
			assert.Equal(t, wantShared, redistest.Available(t, shared))
		})
	}
}
