package rratelimiter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// leased grants permits as a lease that ends after d, with the lease ID of a Client.
func (b *fixture) leased(c *Client, permits int64, d time.Duration) (member string) {
	b.Helper()
	member = c.member(permits, true)
	b.must(b.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(d).UnixMilli()), member))
	b.must(b.Redis.Incr("{limiter}:value", -int(permits)))
	return member
}

// TestRelease_LeasesOfOthers_AreReleasedLast: the permits that another process has leased and not
// used return when its lease ends, whatever this process releases.
func TestRelease_LeasesOfOthers_AreReleasedLast(t *testing.T) {
	for name, ownLease := range map[string]bool{"a plain grant": false, "a lease of its own": true} {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Permits: 100, Interval: time.Hour})
			b.Take(l, 1)
			other := New(b.Conn)
			lease := b.leased(other, 20, second/2)
			if ownLease {
				b.leased(l.wire.client, 30, second)
			} else {
				b.Take(l, 30)
			}
			require.NoError(b, l.Release(b.Context(), 31))
			b.Free(l, 80)
			score, err := b.Redis.ZScore("{limiter}:permits", lease)
			require.NoError(b, err, "the other process's lease is there")
			require.NotZero(b, score)
			require.NoError(b, other.Limiter("limiter").wire.refund(b.Context(), 20, lease[:17], 20, ""))
			b.Free(l, 100)

			lease = b.leased(other, 20, second/2)
			b.Take(l, 1)
			require.NoError(b, l.Release(b.Context(), 5))
			b.Free(l, 84)
			require.NoError(b, other.Limiter("limiter").wire.refund(b.Context(), 20, lease[:17], 20, ""))
			b.Free(l, 100)
		})
	}
}

// TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd: the wait is not an interval longer.
func TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd(t *testing.T) {
	withRedis(t, func(b *fixture) {
		const interval = 10 * time.Second
		l := b.limiter(Rate{Permits: 100, Interval: interval})
		b.Take(l, 40)
		other := New(b.Conn).Limiter("limiter")
		lease := b.leased(other.wire.client, 60, 600*time.Millisecond)
		d := b.decision(l, 50)
		assert.False(b, d.Allowed)
		assert.Equal(b, 650*time.Millisecond, d.RetryAfter)
		go func() {
			time.Sleep(590 * time.Millisecond)
			assert.NoError(b, other.wire.refund(b.Context(), 60, lease[:17], 60, ""))
		}()
		// Unused permits return sooner than RetryAfter.
		b.yes(l.TryAcquireWithin(b.Context(), 50, 620*time.Millisecond))

		// A lease that is used up returns an interval later.
		b.leased(other.wire.client, 10, 600*time.Millisecond)
		d = b.decision(l, 5)
		assert.Equal(b, 650*time.Millisecond, d.RetryAfter)
		pass(650 * time.Millisecond)
		d = b.decision(l, 5)
		assert.False(b, d.Allowed)
		assert.Greater(b, d.RetryAfter, 8*time.Second)
	})
}

// TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem: another client can write grants of 0
// permits, as Redisson does for a request for 0.
func TestRelease_GrantsWithoutPermits_ReturnsThoseBehindThem(t *testing.T) {
	for _, empty := range []int{255, 256, 257, 1000} {
		for _, ahead := range []time.Duration{0, time.Minute} { // as grants, and as leases
			withRedis(t, func(b *fixture) {
				l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
				for i := range empty {
					_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(ahead).UnixMilli()),
						memberOf(fmt.Sprintf("\x10%016d", i), 0))
					require.NoError(b, err)
				}
				pass(time.Second)
				b.Take(l, 1)
				b.leased(l.wire.client, 6, 2*ahead)
				require.NoError(b, l.Release(b.Context(), 3), "%d", empty)
				b.Free(l, 6)
				sum := int64(0)
				for _, permits := range b.grants() {
					sum += permits
				}
				assert.EqualValues(b, 4, sum, "%d", empty)
			})
		}
	}
}

func TestRelease_Fails_ExpiredGrantsAreCounted(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 4)
		pass(5 * second)
		b.must(b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()-1), "abc"))
		b.Take(l, 5)
		pass(5 * second)
		require.ErrorAs(b, l.Release(b.Context(), 1), new(*StateError))
		b.Free(l, 5)
	})
}

// refund refunds some permits of a grant of so many.
func (b *fixture) refund(l *Limiter, letter string, permits, of int64) error {
	rest := ""
	if of > permits {
		rest = member(letter, of-permits)
	}
	_, err := b.run(refundScript, l, b.nowText(), fmt.Sprint(permits), member(letter, of), rest, "")
	return err
}

func TestRefund_GrantHasJustExpired_ReturnsNothing(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.granted(l, "a", 7)
		pass(second - time.Millisecond)
		b.Take(l, 1)
		pass(time.Millisecond)
		require.NoError(b, b.refund(l, "a", 1, 7))
		b.Free(l, 9)
	})
}

func TestRefund_RateIsGone_ReturnsNothing(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		slot := receipt.Collect(b.Context())
		b.yes(l.TryAcquire(slot, 3))
		b.Redis.FlushAll()
		assert.NoError(b, slot.Of(3).Refund(b.Context(), 2))
		assert.Empty(b, b.Redis.Keys())
	})
}

// TestRefund_ReleaseCutTheGrant_RefundsTheRest: a refund returns no more than the grant still
// holds.
func TestRefund_ReleaseCutTheGrant_RefundsTheRest(t *testing.T) {
	for _, test := range []struct {
		granted, released, refunded int64
		kept                        map[string]int64
	}{
		{10, 0, 2, map[string]int64{"a": 8, "b": 20}},
		{10, 0, 10, map[string]int64{"b": 20}},
		{10, 3, 2, map[string]int64{"a": 5, "b": 20}},
		{10, 3, 7, map[string]int64{"b": 20}},
		{10, 3, 10, map[string]int64{"b": 20}},
		{10, 9, 4, map[string]int64{"b": 20}},
		{10, 10, 4, map[string]int64{"b": 20}},
		{10, 15, 4, map[string]int64{"b": 15}},
		// The count of a member has four bytes.
		{1<<16 + 300, 5, 290, map[string]int64{"a": 1<<16 + 5, "b": 20}},
		{1<<24 + 1<<16 + 300, 5, 290, map[string]int64{"a": 1<<24 + 1<<16 + 5, "b": 20}},
		{1<<32 - 1, 5, 290, map[string]int64{"a": 1<<32 - 296, "b": 20}},
	} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 1 << 40, Interval: second})
			b.granted(l, "a", test.granted)
			pass(time.Millisecond)
			b.granted(l, "b", 20)
			require.NoError(b, l.Release(b.Context(), test.released))
			require.NoError(b, b.refund(l, "a", test.refunded, test.granted))
			assert.Equal(b, test.kept, b.grants(), "%+v", test)
			free := int64(1 << 40)
			for _, n := range test.kept {
				free -= n
			}
			b.Free(l, free)
			b.Redis.Del("{limiter}:value")
			b.Free(l, free)
		})
	}
}

// TestRefund_CommandIsNotPermitted_FreesNothing: whichever command fails, no permit is free that is
// taken.
func TestRefund_CommandIsNotPermitted_FreesNothing(t *testing.T) {
	for _, command := range []string{"HMGET", "GET", "PTTL", "ZRANGE", "ZSCORE", "SET", "ZADD", "ZREM", "ZCOUNT",
		"ZCARD", "ZREMRANGEBYRANK", "PERSIST"} {
		runWithRedis(t, command, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.granted(l, "a", 2)
			pass(second / 2)
			b.granted(l, "b", 5)
			pass(second / 2)
			if command == "PERSIST" { // it removes the TTL of another program
				b.Redis.SetTTL("{limiter}:permits", time.Hour)
			}
			refused := b.Reply(command, "", func(peer *server.Peer, _ []string) {
				peer.WriteError("NOPERM this user has no permissions to run the command")
			})
			require.Error(b, b.refund(l, "b", 3, 5))
			require.Equal(b, 1, *refused)
			b.Reply("", "none", nil)
			pass(2 * time.Millisecond) // a deleted value
			free, err := l.AvailablePermits(b.Context())
			require.NoError(b, err)
			assert.LessOrEqual(b, free, int64(8))
			b.Take(l, 1)
			pass(second / 2)
			b.Free(l, 9)
			b.Take(l, 9)
			b.Full(l, 1)
		})
	}
}

// TestFlush_CallerLeaves_LosesNoLease: leased permits return, or stay leased.
func TestFlush_CallerLeaves_LosesNoLease(t *testing.T) {
	const lease = 10 * time.Millisecond
	for name, call := range map[string]func(ctx context.Context, l *Limiter) error{
		"Flush": func(ctx context.Context, l *Limiter) error { return l.wire.client.Flush(ctx) },
		"a request that needs what is leased": func(ctx context.Context, l *Limiter) error {
			return errOf(l.TryAcquire(ctx, 700))
		},
	} {
		for when, once := range map[string]bool{"before": false, "once it has begun": true} {
			runWithRedis(t, name+", "+when, func(b *fixture) {
				l := b.limiter(Rate{Permits: 1000, Interval: 10 * time.Second}, WithLease(lease), WithDenialCache(time.Hour))
				b.Latency.Store(int64(500 * time.Microsecond))
				for range 300 {
					pass(30 * time.Microsecond)
					b.Take(l, 1)
				}
				require.Less(b, b.Stored("{limiter}:value"), int64(700), "something is leased")
				b.Latency.Store(0)
				plain := l.wire.client.Limiter("limiter")
				plain.calls.Leases = false
				b.Full(plain, 700)
				synctest.Wait()                                // which is remembered
				b.Latency.Store(int64(500 * time.Microsecond)) // so that the context ends before the calls
				inner, end := context.WithCancel(b.Context())
				ctx := context.Context(redistest.EndsOnceAsked{Context: inner, End: end})
				if !once {
					end()
					ctx = inner
				}
				require.ErrorIs(b, call(ctx, l), context.Canceled)
				pass(2 * lease)
				b.Free(l, 700)
				pass(100 * time.Millisecond)
				synctest.Wait()
				assert.True(b, l.wire.client.engine.Idle())
			})
		}
	}
}

// TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether: for every byte of a member's permits.
func TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether(t *testing.T) {
	withRedis(t, func(b *fixture) {
		const rate = 1 << 40
		l := b.limiter(Rate{Permits: rate, Interval: time.Minute})
		sum := int64(0)
		for i, n := range []int64{1, 0x100, 0x10000, 0x1000000, 0x01020304, 0xfffffffe} {
			b.granted(l, string(rune('a'+i)), n)
			sum += n
		}
		pass(second)
		b.granted(l, "z", 500)
		want := fmt.Sprintf("0 %d %d 60000 0 n 59000 %d 60000 500", rate-sum-500, int64(rate), sum)
		assert.Equal(b, want, b.ask(l, "w", fmt.Sprint(int64(rate), "*1")))
		b.Redis.Del("{limiter}:value")
		b.Free(l, rate-sum-500)
		b.Take(l, 1)
		b.Free(l, rate-sum-501)
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: rate, Interval: time.Minute}, KeepState()))
		b.Free(l, rate-sum-501)
		require.NoError(b, l.Release(b.Context(), 0x1010101+0x01020304))
		b.Free(l, rate-sum-501+0x1010101+0x01020304)
		pass(59 * second)
		b.Free(l, rate-501)
		b.granted(l, "y", 1) // its call does not correct drift
		b.Free(l, rate-502)
	})
}
