package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

var initial = Rate{Permits: 10, Interval: second, KeepAlive: 3 * second}

// needRate are the calls of everyCall that need a rate, except for those that only read the
// configuration.
var needRate = []string{"TryAcquire", "TryAcquireWithin", "Acquire", "Take", "TakeUpTo", "Release", "AvailablePermits"}

func TestInitialRate_NoRateInRedis_EachCallSetsItInOneMoreRoundTrip(t *testing.T) {
	for _, name := range needRate {
		for _, opts := range [][]Option{nil, {WithDenialCache(second)}, {WithLease(time.Second)}} {
			runWithRedis(t, fmt.Sprint(name, len(opts)), func(b *fixture) {
				for _, rate := range []Rate{initial, {Permits: 10, Interval: second, Type: PerClient}} {
					b.Redis.FlushAll()
					l := New(b.Conn, opts...).Limiter("limiter", InitialRate(rate))
					call := everyCall(l)[name]
					require.NoError(b, call(b.Context())) // the scripts are known from now on
					assert.Equal(b, rate, b.configured(l))

					pass(time.Minute)
					b.Redis.FlushDB()
					_, err := l.Exists(b.Context()) // ends what a lease returns
					require.NoError(b, err)
					sent := b.Sent.Load()
					require.NoError(b, call(b.Context()))
					assert.EqualValues(b, 2, b.Sent.Load()-sent, "the call and the one that sets the rate")
					assert.Equal(b, rate, b.configured(l))
				}
			})
		}
	}
}

func TestInitialRate_CallThatNeedsNoRate_SetsNone(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if slices.Contains(append(needRate, "TrySetRate", "SetRate", "SetRate keep"), name) {
			continue
		}
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.Conn).Limiter("limiter", InitialRate(initial))
			_ = everyCall(l)[name](b.Context())
			assert.Empty(b, b.Redis.Keys())
		})
	}
}

func TestInitialRate_FieldIsMissing_IsSet(t *testing.T) {
	for _, missing := range []string{"rate", "interval", "type"} {
		for _, name := range needRate {
			runWithRedis(t, missing+" "+name, func(b *fixture) {
				l := New(b.Conn).Limiter("limiter", InitialRate(initial))
				b.Take(l, 1)
				b.Redis.HDel("limiter", missing)
				assert.NoError(b, everyCall(l)[name](b.Context()))
				assert.Equal(b, initial, b.configured(l))
			})
		}
	}
}

func TestInitialRate_RateInRedis_Stays(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.limiter(Rate{Permits: 3, Interval: time.Hour})
		l := New(b.Conn).Limiter("limiter", InitialRate(initial))
		b.Take(l, 3)
		b.Full(l, 1)
		assert.Equal(b, Rate{Permits: 3, Interval: time.Hour}, b.configured(l))
		assert.ErrorIs(b, errOf(l.TryAcquire(b.Context(), 4)), ErrPermitsExceedRate)
	})
}

func TestInitialRate_KeepAliveHasPassed_LimitsAgain(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.Conn).Limiter("limiter", InitialRate(initial))
		for range 3 {
			b.Take(l, 10)
			b.Full(l, 1)
			pass(time.Hour)
			require.Empty(b, b.Redis.Keys())
		}
	})
}

func TestInitialRate_DataLostWhileCallersWait_TheyAreServedAtTheRate(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.Conn, WithWaitJitter(0)).Limiter("limiter", InitialRate(initial))
		b.Take(l, 10)
		time.AfterFunc(second/2, b.Redis.FlushAll)
		began := time.Now()
		_, errs := redistest.Crowd(30, func(int) (struct{}, error) { return struct{}{}, l.Acquire(b.Context(), 1) })
		for _, err := range errs {
			require.NoError(b, err)
		}
		assert.Equal(b, 3*second, time.Since(began).Round(10*time.Millisecond))
	})
}

func TestInitialRate_TwoClientsAtOnce_OneRateCounts(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.Latency.Store(int64(10 * time.Millisecond))
		var limiters []*Limiter
		for i := range 8 {
			rate := Rate{Permits: 10 + int64(i), Interval: second}
			limiters = append(limiters, New(b.Conn).Limiter("limiter", InitialRate(rate)))
		}
		granted, errs := redistest.Crowd(200, func(caller int) (bool, error) {
			return limiters[caller%len(limiters)].TryAcquire(b.Context(), 1)
		})
		count := int64(0)
		for i := range granted {
			require.NoError(b, errs[i])
			if granted[i] {
				count++
			}
		}
		assert.Equal(b, b.configured(limiters[0]).Permits, count)
	})
}

func TestInitialRate_LimiterOfTheSameNameWithout_StillFails(t *testing.T) {
	withRedis(t, func(b *fixture) {
		c := New(b.Conn)
		with, without := c.Limiter("limiter", InitialRate(initial)), c.Limiter("limiter")
		b.Latency.Store(int64(10 * time.Millisecond))
		_, errs := redistest.Crowd(2, func(caller int) (bool, error) {
			if caller == 0 {
				return without.TryAcquire(b.Context(), 1)
			}
			pass(time.Millisecond)
			return with.TryAcquire(b.Context(), 1)
		})
		assert.ErrorIs(b, errs[0], ErrNotInitialized)
		assert.NoError(b, errs[1])
	})
}

func TestInitialRate_InPipelines_EachLimiterGetsItsOwn(t *testing.T) {
	withRedis(t, func(b *fixture) {
		c := New(b.Conn)
		b.Latency.Store(int64(10 * time.Millisecond))
		_, errs := redistest.Crowd(200, func(caller int) (bool, error) {
			l := c.Limiter(strconv.Itoa(caller), InitialRate(Rate{Permits: 1 + int64(caller), Interval: second}))
			return l.TryAcquire(b.Context(), 1)
		})
		for caller, err := range errs {
			require.NoError(b, err)
			assert.Equal(b, strconv.Itoa(1+caller), b.Redis.HGet(strconv.Itoa(caller), "rate"))
		}
	})
}

func TestInitialRate_Invalid_FailsAtTheFirstCallWithoutRedis(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for _, rate := range []Rate{
			{}, {Permits: 1}, {Permits: -1, Interval: second}, {Permits: 1, Interval: time.Microsecond},
		} {
			l := New(b.Conn).Limiter("limiter", InitialRate(rate))
			sent := b.Sent.Load()
			for name, call := range everyCall(l) {
				require.ErrorIs(b, call(b.Context()), ErrInvalidRate, name)
			}
			assert.Equal(b, sent, b.Sent.Load())
		}
	})
}

func TestInitialRate_AnotherClientDeletesItEachTime_TheCallEnds(t *testing.T) {
	for _, name := range needRate {
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.Conn).Limiter("limiter", InitialRate(initial))
			sets := 0
			b.Redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
				switch command {
				case "EVAL": // of the two scripts in one round trip
					sets++
					fallthrough
				case "EVALSHA":
					b.Redis.Del("limiter")
				}
				return false
			})
			err := everyCall(l)[name](b.Context())
			assert.ErrorIs(b, err, ErrNotInitialized)
			assert.LessOrEqual(b, sets, 2*mostInitial+1, "one more if the script is not known yet")
		})
	}
}

func TestInitialRate_CorruptLimiter_IsNotRepaired(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.limiter(initial)
		l := New(b.Conn).Limiter("limiter", InitialRate(initial))
		b.Redis.HSet("limiter", "rate", "x")
		assert.ErrorContains(b, errOf(l.TryAcquire(b.Context(), 1)), `"x"`)
		assert.Equal(b, "x", b.Redis.HGet("limiter", "rate"))
	})
}

func TestInitialRate_ServerRefusesToSetIt_TheCallHasItsError(t *testing.T) {
	for _, name := range needRate {
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.Conn).Limiter("limiter", InitialRate(initial))
			b.Redis.Server().SetPreHook(func(peer *server.Peer, command string, words ...string) bool {
				if command == "EVAL" && strings.Contains(words[0], "HSETNX") {
					peer.WriteError("NOPERM no permission to run 'hsetnx'")
					return true
				}
				return false
			})
			assert.ErrorContains(b, everyCall(l)[name](b.Context()), "NOPERM")
		})
	}
}

func TestRate_FourPodsStart_OnlySetRateFreesPermits(t *testing.T) {
	rate := Rate{Permits: 100, Interval: time.Minute}
	for name, test := range map[string]struct {
		open func(ctx context.Context, c *Client) (*Limiter, error)
		want int64
	}{
		"InitialRate": {func(_ context.Context, c *Client) (*Limiter, error) {
			return c.Limiter("limiter", InitialRate(rate)), nil
		}, 100},
		"SetRate with KeepState": {func(ctx context.Context, c *Client) (*Limiter, error) {
			l := c.Limiter("limiter")
			return l, l.SetRate(ctx, rate, KeepState())
		}, 100},
		"SetRate": {func(ctx context.Context, c *Client) (*Limiter, error) {
			l := c.Limiter("limiter")
			return l, l.SetRate(ctx, rate)
		}, 400},
	} {
		runWithRedis(t, name, func(b *fixture) {
			var granted int64
			for range 4 {
				l, err := test.open(b.Context(), New(b.Conn))
				require.NoError(b, err)
				got, _, err := l.TakeUpTo(b.Context(), 1000)
				require.NoError(b, err)
				granted += got
				pass(5 * second)
			}
			assert.Equal(b, test.want, granted)
		})
	}
}
