package limit

import (
	"context"
	"fmt"
	"io"
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

// mustTakeAll takes permits, which are free.
func mustTakeAll(t testing.TB, taken *Taken, permits int64, limiters ...Joinable) {
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
func lossyClient(b *fixture, opts ...rratelimiter.Option) (client *rratelimiter.Client, lose *atomic.Int32) {
	lose = new(atomic.Int32)
	conn, err := memredis.ConnectThrough(b.Redis, func(conn net.Conn) net.Conn { return lossyConn{conn, lose} })
	require.NoError(b, err)
	b.Cleanup(conn.Close)
	return rratelimiter.New(conn, opts...), lose
}

// TestTaken_Settle_ChangesTheDifference: for each policy, alone and joined; to less, the same and more.
// No lost reply changes that, and no other Settle.
func TestTaken_Settle_ChangesTheDifference(t *testing.T) {
	policies := []Policy{
		FixedWindow{20, time.Hour, false}, FixedWindow{20, time.Hour, true}, Calendar{20, Year, nil},
		SlidingWindow{20, time.Hour, 0}, SlidingLog{20, time.Hour}, TokenBucket{20, 1, time.Hour},
		LeakyBucket{20, 1, time.Hour},
	}
	for _, p := range policies {
		for _, lost := range []int32{0, 1, 3} {
			for _, acquires := range []bool{false, true} {
				runWithRedis(t, fmt.Sprintf("%T, %d replies are lost, acquires %t", p, lost, acquires), func(b *fixture) {
					client, lose := lossyClient(b)
					l, other := New(client, "{x}:one", p), NewKeyed(client, "{x}:two", p).Limiter("key")
					left := func() (left []int64) {
						for _, d := range append(mustPeek(b, l), mustPeek(b, other)...) {
							left = append(left, d.Remaining)
						}
						return left
					}
					want := int64(20)
					for _, actual := range []int64{5, 0, 2, 7} {
						taken := new(Taken)
						if acquires {
							require.NoError(b, taken.Acquire(b.Context(), 5, l, other))
						} else {
							mustTakeAll(b, taken, 5, l, other)
						}
						lose.Store(lost)
						require.NoError(b, taken.Settle(b.Context(), actual))
						lose.Store(0)
						want -= actual
						require.Equal(b, []int64{want, want}, left(), actual)
						require.NoError(b, taken.Settle(b.Context(), 1))
						require.NoError(b, taken.Settle(b.Context()))
						require.Equal(b, []int64{want, want}, left(), actual)
					}
				})
			}
		}
	}
}

// TestTaken_Redisson_SettlesWithOthers: a grant of several callers is one member, whose permits a
// second refund would take from the other callers.
func TestTaken_Redisson_SettlesWithOthers(t *testing.T) {
	for _, lost := range []int32{0, 1, 2, 3} {
		runWithRedis(t, fmt.Sprint(lost, " replies are lost"), func(b *fixture) {
			client, lose := lossyClient(b)
			shared := client.Limiter("{x}:shared", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 20, Interval: time.Hour}))
			own := New(client, "{x}:own", FixedWindow{20, time.Hour, false})
			left := func() [2]int64 {
				free, err := shared.AvailablePermits(b.Context())
				require.NoError(b, err)
				return [2]int64{free, mustPeek(b, own)[0].Remaining}
			}
			b.Latency.Store(int64(10 * ms))
			var taken [3]Taken
			var all sync.WaitGroup
			for i := range taken {
				all.Go(func() { mustTakeAll(b, &taken[i], 4, shared, own) })
			}
			all.Wait()
			b.Latency.Store(0)
			require.Equal(b, [2]int64{8, 8}, left())
			lose.Store(lost)
			require.NoError(b, taken[0].Settle(b.Context(), 1))
			lose.Store(0)
			assert.Equal(b, [2]int64{11, 11}, left())

			lose.Store(lost)
			err := taken[1].Settle(b.Context(), 6)
			lose.Store(0)
			require.ErrorIs(b, err, ErrNotChargeable)
			assert.ErrorContains(b, err, `"{x}:shared + {x}:own"`)
			assert.Equal(b, [2]int64{11, 9}, left(), "the shared one keeps what was taken")
			require.NoError(b, taken[1].Settle(b.Context(), 0))
			assert.Equal(b, [2]int64{11, 9}, left())

			alone := new(Taken)
			mustTakeAll(b, alone, 1, shared)
			require.ErrorIs(b, alone.Settle(b.Context(), 2), ErrNotChargeable)
			require.NoError(b, taken[2].Settle(b.Context(), 4))
			assert.Equal(b, [2]int64{10, 9}, left())
		})
	}
}

// TestTaken_Lease_SettlesOnce: a refund of leased permits leaves the lease as it is, and a charge
// returns it before.
func TestTaken_Lease_SettlesOnce(t *testing.T) {
	withRedis(t, func(b *fixture) {
		client, lose := lossyClient(b, rratelimiter.WithLease(time.Second))
		l := New(client, "x", FixedWindow{1000, time.Hour, false})
		for range 50 { // enough demand for a lease
			require.True(b, must(b, l.TryAcquire, 1))
		}
		for _, c := range []struct {
			actual int64
			lost   int32 // of a charge, that would be the reply to the return of a lease
		}{{1, 2}, {6, 0}} {
			taken := new(Taken)
			mustTakeAll(b, taken, 3, l)
			lose.Store(c.lost)
			require.NoError(b, taken.Settle(b.Context(), c.actual))
		}
		require.NoError(b, client.Flush(b.Context()))
		assert.EqualValues(b, 1000-50-1-6, mustPeek(b, l)[0].Remaining)
	})
}

func TestTaken_ContextEnded_SettlesAllTheSame(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "x", FixedWindow{10, time.Hour, false})
		taken := new(Taken)
		mustTakeAll(b, taken, 5, l)
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		require.NoError(b, taken.Settle(ctx, 2))
		assert.EqualValues(b, 8, mustPeek(b, l)[0].Remaining)
	})
}

// TestTaken_Denied_HoldsWhatItHeld: with several calls, each number is of one call.
func TestTaken_Denied_HoldsWhatItHeld(t *testing.T) {
	withRedis(t, func(b *fixture) {
		requests := New(b.client, "{x}:requests", FixedWindow{10, time.Hour, false})
		tokens := New(b.client, "{x}:tokens", TokenBucket{100, 100, time.Hour})
		day := New(b.client, "{x}:day", FixedWindow{50, 24 * time.Hour, false})
		left := func() [3]int64 {
			return [3]int64{mustPeek(b, requests)[0].Remaining, mustPeek(b, tokens)[0].Remaining, mustPeek(b, day)[0].Remaining}
		}
		taken := new(Taken)
		mustTakeAll(b, taken, 1, requests)
		_, err := taken.Take(b.Context(), 60, tokens, day)
		require.ErrorIs(b, err, rratelimiter.ErrPermitsExceedRate)
		mustTakeAll(b, taken, 40, tokens, day)
		d, err := taken.Take(b.Context(), 11, tokens, day)
		require.NoError(b, err)
		require.False(b, d.Allowed)
		require.Positive(b, d.RetryAfter)
		require.Equal(b, [3]int64{9, 60, 10}, left())

		for _, invalid := range [][]int64{{1, 30, 0}, {-1}, {1, 1 << 62}} {
			require.ErrorIs(b, taken.Settle(b.Context(), invalid...), rratelimiter.ErrInvalidPermits, invalid)
		}
		require.NoError(b, taken.Settle(b.Context(), 1, 30))
		assert.Equal(b, [3]int64{9, 70, 20}, left())
		require.NoError(b, new(Taken).Settle(b.Context(), 7))

		mustTakeAll(b, taken, 1, requests)
		mustTakeAll(b, taken, 20, tokens, day)
		require.NoError(b, taken.Settle(b.Context()), "all back")
		assert.Equal(b, [3]int64{9, 70, 20}, left())
		_, err = taken.Take(b.Context(), 1)
		require.ErrorIs(b, err, rratelimiter.ErrInvalidRate, "no limiters")
	})
}

// TestTaken_OneFails_TheRestLater: a later Settle uses the numbers of the first one.
func TestTaken_OneFails_TheRestLater(t *testing.T) {
	withRedis(t, func(b *fixture) {
		good, bad := New(b.client, "good", FixedWindow{10, time.Hour, false}), New(b.client, "bad", FixedWindow{10, time.Hour, false})
		taken := new(Taken)
		mustTakeAll(b, taken, 4, good)
		mustTakeAll(b, taken, 4, bad)
		const key = "{bad}:window:3600000"
		state, err := b.Redis.Get(key)
		require.NoError(b, err)
		require.NoError(b, b.Redis.Set(key, "broken"))
		err = taken.Settle(b.Context(), 1, 3)
		require.ErrorContains(b, err, `"bad"`)
		assert.NotContains(b, err.Error(), `"good"`)
		assert.EqualValues(b, 9, mustPeek(b, good)[0].Remaining)
		_, err = taken.Take(b.Context(), 1, good)
		require.ErrorIs(b, err, errUnsettled)

		require.NoError(b, b.Redis.Set(key, state))
		b.Redis.SetTTL(key, time.Hour)
		require.NoError(b, taken.Settle(b.Context()))
		assert.EqualValues(b, 9, mustPeek(b, good)[0].Remaining)
		assert.EqualValues(b, 7, mustPeek(b, bad)[0].Remaining)
	})
}

// TestTaken_RedisAway_TriesForAWhile: then again, but not when Redis may have forgotten.
func TestTaken_RedisAway_TriesForAWhile(t *testing.T) {
	withRedis(t, func(b *fixture) {
		client, lose := lossyClient(b)
		l := New(client, "x", FixedWindow{10, time.Hour, false})
		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{settleAgain - settleFor, 8}, {settleAgain, 8}} {
			require.NoError(b, l.Reset(b.Context()))
			taken := new(Taken)
			mustTakeAll(b, taken, 4, l)
			lose.Store(1 << 20)
			begin := time.Now()
			require.ErrorContains(b, taken.Settle(b.Context(), 2), `"x"`)
			assert.InDelta(b, settleFor, time.Since(begin), float64(settleFor)/10)
			lose.Store(0)
			redistest.Pass(c.after)
			err := taken.Settle(b.Context())
			if c.after < settleAgain {
				require.NoError(b, err)
			} else {
				require.ErrorIs(b, err, errTooOld)
			}
			assert.EqualValues(b, c.want, mustPeek(b, l)[0].Remaining)
			require.NoError(b, taken.Settle(b.Context()))
		}
		assert.LessOrEqual(b, settleAgain+settleFor, redisx.OnceFor)
	})
}
