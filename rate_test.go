package rratelimiter

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestSetRate_State_IsReset(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second})
		f.RequireGranted(l, 10)
		require.NoError(t, l.SetRate(ctx, Rate{Permits: 5, Interval: time.Second}))
		f.RequireGranted(l, 5)

		// Another type: no state of the old one stays.
		f.RequireTrue(l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: time.Second}, nil, KeepState()))
		assert.Equal(t, []string{"limiter"}, f.Redis.Keys())
	})
}

// TestKeepState_Grants_StayTaken: to the millisecond, by the Client's clock and by the server's.
func TestKeepState_Grants_StayTaken(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithServerTime()}} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: 10 * time.Second}, opts...)
			f.RequireGranted(l, 3)
			time.Sleep(4321 * time.Millisecond)
			f.RequireGranted(l, 5)
			keep := func(permits int64, interval time.Duration) {
				rate := Rate{Permits: permits, Interval: interval}
				require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
			}
			keep(20, 10*time.Second)
			f.RequireAvailable(l, 12)
			keep(6, 10*time.Second) // 8 are taken: a deficit of 2
			f.RequireAvailable(l, 0)
			want := Decision{Limit: 6, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}
			assert.Equal(t, want, redistest.Result(t, l.Take, 2))
			keep(9, 4322*time.Millisecond)
			f.RequireAvailable(l, 1)
			keep(9, 4321*time.Millisecond) // the 3 have left the shorter interval
			f.RequireAvailable(l, 4)
			assert.Len(t, f.members(), 1)
			time.Sleep(4321 * time.Millisecond)
			f.RequireGranted(l, 9)
		})
	}
}

// TestKeepState_MoreGrantsThanAPage_StayTaken: the call counts them by the value, if there is one.
func TestKeepState_MoreGrantsThanAPage_StayTaken(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10_000, Interval: 10 * time.Second})
		f.fill(l, 300, 2)
		keep := func(permits int64) {
			rate := Rate{Permits: permits, Interval: 10 * time.Second}
			require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
		}
		keep(500)
		f.RequireDenied(l, 1)
		keep(700)
		f.RequireGranted(l, 100)
		f.RequireDenied(l, 1)
		f.Redis.Del("{limiter}:value")
		keep(800)
		f.RequireAvailable(l, 100)
		f.RequireGranted(l, 1)
		synctest.Wait() // drift has been counted
		require.NoError(t, f.Redis.Set("{limiter}:value", "20000"))
		keep(900)
		assert.EqualValues(t, 900, f.Stored("{limiter}:value"))
		time.Sleep(10 * time.Second)
		f.RequireGranted(l, 900)
	})
}

// TestKeepState_ConfigurationIsLost_GrantsCount: Redis evicted the configuration. A rate that keeps
// the state counts the grants, as in Redisson. Otherwise the window would hold 10 + 10 permits for
// a rate of 10.
func TestKeepState_ConfigurationIsLost_GrantsCount(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			rate := Rate{Type: kind, Permits: 10, Interval: time.Minute}
			l := f.limiter(rate)
			f.RequireGranted(l, 10)
			require.True(t, f.Redis.Del("limiter"))
			time.Sleep(time.Second)
			f.RequireFalse(l.UpdateRate(t.Context(), rate, KeepState())) // there is no limiter to update
			require.NoError(t, l.SetRate(t.Context(), rate, KeepState()))
			f.RequireDenied(l, 1)
			time.Sleep(time.Minute)
			f.RequireGranted(l, 10)
		})
	}
}

// TestTrySetRate_PartOfAConfiguration_TypeDecides: TrySetRate sets what is missing beside valid fields, and
// reports whether that was the type, as in Redisson. For UpdateRate a limiter exists if it has any field.
func TestTrySetRate_PartOfAConfiguration_TypeDecides(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx, l, rate := t.Context(), New(f.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: time.Second}
		f.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		f.RequireTrue(l.TrySetRate(ctx, rate))
		assert.Equal(t, Rate{Permits: 7, Interval: 2 * time.Second}, f.configured(l), "what was there stays")
		f.RequireFalse(l.TrySetRate(ctx, rate))

		f.Redis.FlushAll()
		f.Redis.HSet("limiter", "type", "0")
		f.RequireFalse(l.TrySetRate(ctx, rate))
		assert.Equal(t, rate, f.configured(l))
		f.Redis.FlushAll()
		f.Redis.HSet("limiter", "rate", "x")
		assert.Equal(t, &StateError{"limiter", "rate", "x"}, redistest.Err(l.TrySetRate(ctx, rate)))
		f.RequireTrue(l.UpdateRate(ctx, rate))
		assert.Equal(t, rate, f.configured(l))
	})
}

func TestConfig_LongestTimes_AreCutToDurations(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.Conn).Limiter("limiter")
		f.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime",
			"999999999999999")
		rate := f.configured(l)
		assert.Equal(t, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
	})
}

// TestTryAcquire_StateIsLost_WindowIsKept: after an eviction no window holds more than the rate,
// and the limiter does not block for ever.
func TestTryAcquire_StateIsLost_WindowIsKept(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.RequireGranted(l, 7)
		f.Redis.Del("{limiter}:value")
		f.RequireDenied(l, 4)
		f.RequireGranted(l, 3)
		f.Redis.Del("{limiter}:permits")
		f.RequireAvailable(l, 10)
		f.RequireGranted(l, 10)

		// More than the rate, as after another client has lowered the rate: until the next count.
		time.Sleep(time.Second)
		f.RequireGranted(l, 4)
		synctest.Wait() // drift has been counted
		require.NoError(t, f.Redis.Set("{limiter}:value", "50"))
		f.RequireAvailable(l, 10)
		f.countedNow(l)
		f.RequireGranted(l, 3)
		time.Sleep(time.Second / recountPart)
		f.RequireDenied(New(f.Conn).Limiter("limiter"), 8)
		synctest.Wait()
		f.RequireAvailable(l, 3)
		f.RequireGranted(l, 3)
		f.RequireDenied(l, 1)
	})
}

// TestKeepAlive_TTLsDiffer_StateFollowsTheConfiguration: Redisson leaves such a limiter when it
// renames one with a TTL to a name with state, or sets a TTL on the value alone.
func TestKeepAlive_TTLsDiffer_StateFollowsTheConfiguration(t *testing.T) {
	const last = time.Millisecond
	withRedis(t, func(t *testing.T, f *fixture) {
		uses := map[string]func(l *Limiter, rate Rate){
			"a grant":   func(l *Limiter, _ Rate) { f.RequireGranted(l, 1) },
			"a denial":  func(l *Limiter, _ Rate) { f.RequireDenied(l, 10) },
			"Release":   func(l *Limiter, _ Rate) { require.NoError(t, l.Release(t.Context(), 1)) },
			"KeepState": func(l *Limiter, rate Rate) { require.NoError(t, l.SetRate(t.Context(), rate, KeepState())) },
			"a grant, and the set is lost": func(l *Limiter, _ Rate) {
				f.Redis.Del(l.protocol.keys[permitsKey])
				f.Redis.Del(l.protocol.keys[clientPermitsKey])
				f.RequireGranted(l, 1)
			},
		}
		for _, rate := range []Rate{{}, {Type: PerClient}, {KeepAlive: time.Hour}, {Type: PerClient, KeepAlive: time.Hour}} {
			rate.Permits, rate.Interval = 10, time.Minute
			for _, config := range []time.Duration{0, time.Hour, last} {
				for _, state := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
					for name, use := range uses {
						f.Redis.FlushDB()
						l := f.limiter(rate)
						f.RequireGranted(l, 2)
						synctest.Wait() // drift has been counted
						f.setTTLs(config, state)
						want := cmp.Or(rate.KeepAlive, config)
						wantState := outlasting(want, rate)
						if config == last && rate.KeepAlive == 0 {
							// PTTL returns 0 in it, and an expiry of 0 would delete the state.
							f.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
							wantState -= last
						}
						use(l, rate)
						f.requireTTLs(want, wantState, fmt.Sprintf("%v, %s, TTLs of %v and %v", rate, name, config, state))
						f.refuse("")
					}
				}
			}
		}
	})
}

// TestRate_LongestDurations_DoNotOverflow: no sum of TTLs is negative, and no number loses
// digits.
func TestRate_LongestDurations_DoNotOverflow(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		// This server adds TTLs as Durations: three of them must not overflow.
		const longest = time.Duration(math.MaxInt64) / 3 / time.Millisecond * time.Millisecond
		for _, typ := range []RateType{Overall, PerClient} {
			l := f.limiter(Rate{Type: typ, Permits: 10, Interval: longest, KeepAlive: longest})
			f.RequireGranted(l, 10)
			f.RequireDenied(l, 1)
			require.NoError(t, l.Release(ctx, 1))
			require.NoError(t, l.SetRate(ctx, Rate{Type: typ, Permits: 10, Interval: longest}, KeepState()))
			f.RequireAvailable(l, 1)
			want := Decision{Limit: 10, Remaining: 1, RetryAfter: longest, ResetAfter: longest}
			assert.Equal(t, want, redistest.Result(t, l.Take, 10))

			// Java may leave this: 64 bits of milliseconds.
			f.Redis.HSet("limiter", "interval", "9223372036854775807")
			want.RetryAfter = time.Duration(math.MaxInt64).Truncate(time.Millisecond)
			assert.Equal(t, want.RetryAfter, redistest.Result(t, l.Take, 10).RetryAfter)
			f.RequireNoError(l.Expire(ctx, time.Hour))
			f.RequireDenied(l, 10)
			for key, ttl := range f.ttls() {
				assert.GreaterOrEqual(t, ttl, time.Hour, key)
			}

			// So far ahead that numbers of Lua are not exact: the state has no TTL then.
			f.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteRaw(":8000000000000000000\r\n") })
			f.RequireDenied(l, 10)
			for key, ttl := range f.ttls() {
				assert.True(t, ttl == 0 || !strings.Contains(key, "permits"), "%s: %v", key, ttl)
			}
			f.refuse("")
			f.Redis.FlushAll()
		}
	})
}

// TestKeepAlive_RateChanges_StateLastsAsReported: the KeepAlive is as short as it may be, and it changes with the
// rate, whose grants stay. However long no call follows, the permits return when a denial would say.
func TestKeepAlive_RateChanges_StateLastsAsReported(t *testing.T) {
	old := Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Minute}
	for name, now := range map[string]Rate{
		"same":             old,
		"fewer permits":    {Permits: 4, Interval: time.Minute, KeepAlive: time.Minute},
		"longer":           {Permits: 10, Interval: time.Hour, KeepAlive: time.Hour},
		"shorter":          {Permits: 10, Interval: 40 * time.Second, KeepAlive: 40 * time.Second},
		"longer for ever":  {Permits: 10, Interval: time.Hour},
		"longer KeepAlive": {Permits: 10, Interval: time.Minute, KeepAlive: time.Hour},
	} {
		for way, deny := range map[string]func(f *fixture, l *Limiter) time.Duration{
			"no call": func(*fixture, *Limiter) time.Duration { return 0 },
			"TryAcquire": func(f *fixture, l *Limiter) time.Duration {
				f.RequireDenied(l, 1)
				return 0
			},
			"Take": func(f *fixture, l *Limiter) time.Duration { return redistest.Result(f, l.Take, 1).ResetAfter },
			"TryAcquireWithin": func(f *fixture, l *Limiter) time.Duration {
				granted, err := l.TryAcquireWithin(f.Context(), 1, time.Millisecond)
				require.NoError(f, err)
				require.False(f, granted)
				return 0
			},
		} {
			runWithRedis(t, name+", "+way, func(t *testing.T, f *fixture) {
				l := f.limiter(old)
				f.RequireGranted(l, 10)
				end := time.Now().Add(now.Interval)
				time.Sleep(20 * time.Second)
				require.NoError(t, l.SetRate(t.Context(), now, KeepState()))
				time.Sleep(10 * time.Second)
				if reported := deny(f, l); reported != 0 {
					require.Equal(t, time.Until(end), reported)
				}
				time.Sleep(time.Until(end) - time.Millisecond)
				f.RequireDenied(l, 1)
				time.Sleep(time.Millisecond)
				f.RequireGranted(l, now.Permits)
			})
		}
	}
}

// TestPrefetch_RateChanges_NoWindowHoldsMore: another Client lowers the rate, which keeps the grants, while permits are
// prefetched by the old one. Their grant is dated at the prefetch's end, and lasts as long as the limiter.
func TestPrefetch_RateChanges_NoWindowHoldsMore(t *testing.T) {
	t.Parallel()
	const span, interval = 50 * time.Millisecond, time.Second
	for name, keepAlive := range map[string]time.Duration{"": 0, ", expires": interval + span} {
		runWithRedis(t, "prefetch"+name, func(t *testing.T, f *fixture) {
			rate := Rate{Permits: 1000, Interval: interval, KeepAlive: keepAlive}
			f.limiter(rate)
			var grants []time.Time
			prefetched := 0
			l := New(f.Conn, WithPrefetch(span), WithObserver(&Observer{Decision: func(_ context.Context, d DecisionInfo) {
				if d.Granted {
					grants = append(grants, time.Now())
				}
				if d.Granted && d.Source == FromPrefetch {
					prefetched++
				}
			}})).Limiter("limiter")
			f.Latency.Store(int64(500 * time.Microsecond))
			use := func(until time.Duration) {
				for begin := time.Now(); time.Since(begin) < until; time.Sleep(400 * time.Microsecond) {
					require.NoError(t, redistest.Err(l.TryAcquire(t.Context(), 1)))
				}
			}
			use(span)
			require.Greater(t, prefetched, 50)
			lower := Rate{Permits: 100, Interval: interval, KeepAlive: keepAlive}
			require.NoError(t, New(f.QuickConn()).Limiter("limiter").SetRate(t.Context(), lower, KeepState()))
			changed := time.Now()
			use(2 * interval)
			end := 0 // of the window from g on
			for i, g := range grants {
				for end < len(grants) && grants[end].Sub(g) < interval {
					end++
				}
				if g.After(changed.Add(span)) {
					require.LessOrEqual(t, end-i, 100, "from %v after the change", g.Sub(changed))
				}
				require.LessOrEqual(t, end-i, 1000)
			}
		})
	}
}
