package limit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// ask sends a batch of requests and returns it with its answers.
func (f *clocked) ask(l *Limiter, asks ...engine.Ask) *engine.Batch {
	f.Helper()
	return f.askFor(l, new(engine.Batch), asks...)
}

// askFor is ask with a batch.
func (f *clocked) askFor(l *Limiter, batch *engine.Batch, asks ...engine.Ask) *engine.Batch {
	f.Helper()
	p := &l.protocol
	for _, ask := range asks {
		batch.Requests = append(batch.Requests, &engine.Request{Ask: ask})
	}
	p.Prepare(batch, time.UnixMicro(f.now))
	for again := true; again; {
		reply, err := l.protocol.plan.client.Engine.Eval(f.Context(), p, &batch.Run, nil, nil)
		require.NoError(f, err)
		batch.Reply = reply
		again, err = p.Answer(batch, reply)
		require.NoError(f, err)
	}
	return batch
}

// grantOf returns the grant of a batch, whose age is by the clock of Redis.
func (f *clocked) grantOf(l *Limiter, batch *engine.Batch) grant {
	s, _ := batch.Forecast.(*state)
	of, replied := l.protocol.grantOf(batch, s), f.server
	of.age = func() time.Duration { return micros(f.server - replied) }
	return of
}

// take takes permits and returns the grant.
func (f *clocked) take(l *Limiter, permits int64) grant {
	f.Helper()
	batch := f.ask(l, engine.Ask{Permits: permits})
	require.True(f, batch.Requests[0].Allowed)
	return f.grantOf(l, batch)
}

// refund returns permits of a grant, and reports the free permits of the first policy.
func (f *clocked) refund(l *Limiter, of grant, permits int64) rratelimiter.Decision {
	f.Helper()
	require.NoError(f, l.protocol.refund(f.Context(), permits, of))
	return redistest.Peek(f, l)[0]
}

// TestRefund_WindowHasEnded_NextOneStays: permits are taken shortly before the end of a window. Their refund, or the
// reply before it, is on its way while the window ends and others take all permits of the next one.
func TestRefund_WindowHasEnded_NextOneStays(t *testing.T) {
	const slow = 300 * time.Millisecond
	for name, takeAndReturn := range map[string]func(t *testing.T, f *fixture, p Policy){
		"a settlement": func(t *testing.T, f *fixture, p Policy) {
			var taken Taken
			takeAll(t, &taken, 5, New(f.client, "name", p))
			f.Latency.Store(int64(slow))
			assert.NoError(t, taken.Settle(t.Context()))
		},
		"a caller that leaves": func(t *testing.T, f *fixture, p Policy) {
			conn, latency := f.slowReplies()
			client := rratelimiter.New(conn)
			redistest.Peek(t, New(client, "name", p)) // connects
			latency.Store(int64(slow))
			ctx := redistest.Timeout(t, slow/10)
			assert.ErrorIs(t, redistest.Err(New(client, "name", p).TryAcquire(ctx, 5)), context.DeadlineExceeded)
		},
	} {
		for kind, p := range map[string]Policy{"window": FixedWindow{10, time.Second, false},
			"aligned": FixedWindow{10, time.Second, true}, "calendar": Calendar{10, Day, nil}} {
			runWithRedis(t, name+", "+kind, func(t *testing.T, f *fixture) {
				other := New(rratelimiter.New(f.QuickConn()), "name", p)
				time.Sleep(redistest.Result(t, other.Take, 5).ResetAfter - 50*time.Millisecond)
				var late sync.WaitGroup
				late.Go(func() { takeAndReturn(t, f, p) })
				time.Sleep(20 * time.Millisecond)
				assert.Zero(t, remainingOf(t, other)[0])
				time.Sleep(80 * time.Millisecond)
				require.True(t, redistest.Result(t, other.TryAcquire, 10))
				time.Sleep(2 * slow)
				late.Wait()
				assert.Zero(t, remainingOf(t, other)[0])
			})
		}
	}
}

// TestRefund_ClockOfClientRunsFast_ReturnsTheGrant: of a long call, by a clock that gains 50 parts in a million.
func TestRefund_ClockOfClientRunsFast_ReturnsTheGrant(t *testing.T) {
	for _, p := range windowsOfAnHour {
		withRedis(t, func(t *testing.T, f *fixture) {
			began := time.Now()
			fast := rratelimiter.WithClock(func() time.Time { return time.Now().Add(time.Since(began) / 20_000) })
			l := New(rratelimiter.New(f.Conn, fast), "name", p)
			var taken, late Taken
			takeAll(t, &taken, 4, l)
			takeAll(t, &late, 4, l)
			time.Sleep(10 * time.Minute)
			require.NoError(t, taken.Settle(t.Context()))
			assert.Equal(t, []int64{6}, remainingOf(t, l), "%+v", p)
			time.Sleep(redistest.Result(t, l.Take, 1).ResetAfter)
			require.True(t, redistest.Result(t, l.TryAcquire, 10))
			require.NoError(t, late.Settle(t.Context()))
			assert.Zero(t, remainingOf(t, l)[0], "%+v: the next window", p)
		})
	}
}

// TestPrefetch_ReturnedAfterReset_ReturnsNothing: others have taken permits since.
func TestPrefetch_ReturnedAfterReset_ReturnsNothing(t *testing.T) {
	const permits = 1000
	p := FixedWindow{permits, time.Hour, false}
	inPrefetch(t, []Policy{p}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
		require.Equal(t, 100, f.CountGranted(l, 100, 20*time.Microsecond)) // some are prefetched
		other := New(rratelimiter.New(f.Conn), "name", p)
		time.Sleep(2 * time.Millisecond) // by PTTL, a window that is younger may be that of the prefetch
		require.NoError(t, other.Reset(t.Context()))
		require.True(t, redistest.Result(t, other.Take, permits).Allowed)
		time.Sleep(100 * time.Millisecond) // the prefetch ends
		assert.Zero(t, redistest.Peek(t, other)[0].Remaining)
	})
}

// TestSettle_OfAcquire_FreesNoPermitsOfOthers: a part of the grant came free before its call, which was
// late.
func TestSettle_OfAcquire_FreesNoPermitsOfOthers(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(rratelimiter.New(f.Conn, rratelimiter.WithServerTime()), "name", TokenBucket{10, 1000, time.Second})
		other := New(f.client, "name", TokenBucket{10, 1000, time.Second})
		for round := range 3 {
			require.NoError(t, other.Reset(t.Context()))
			require.True(t, redistest.Result(t, other.TryAcquire, 10))
			var taken Taken
			f.Latency.Store(int64(2 * time.Millisecond)) // one way
			acquired := make(chan error)
			go func() { acquired <- taken.Acquire(t.Context(), 10, l) }()
			time.Sleep(3 * time.Millisecond)
			f.Latency.Store(int64(8 * time.Millisecond)) // a slow moment
			require.NoError(t, <-acquired)
			f.Latency.Store(0)
			others := int64(0)
			for range 10 {
				if redistest.Result(t, other.TryAcquire, 1) {
					others++
				}
			}
			require.NoError(t, taken.Settle(t.Context()))
			d := redistest.Peek(t, other)[0]
			assert.LessOrEqual(t, others+d.Remaining, int64(10), "round %d: others hold %d", round, others)
		}
	})
}

// TestRefund_SmoothGrantOfStoredPermits_FreesNothingOfOthers: it cost nothing.
func TestRefund_SmoothGrantOfStoredPermits_FreesNothingOfOthers(t *testing.T) {
	f, l := clockedLimiter(t, Smooth{Permits: 1, Interval: time.Second, Burst: 5 * time.Second})
	grant := f.take(l, 5)
	f.take(l, 3)
	d := f.refund(l, grant, 5)
	assert.Equal(t, 3*time.Second, d.RetryAfter)
}

// mixedRates are buckets of one key with two rates.
var mixedRates = map[string]struct{ slow, fast Policy }{
	"bucket": {TokenBucket{20, 1, time.Second}, TokenBucket{20, 10, time.Second}},
	"leaky":  {LeakyBucket{20, 1, time.Second}, LeakyBucket{20, 10, time.Second}},
}

// TestRefund_RatesDiffer_PermitsOfOthersStay: a grant under a lower rate, then all that a higher rate has refilled
// since, then the refund of the first. It returns what the second has left of it, under either rate.
func TestRefund_RatesDiffer_PermitsOfOthersStay(t *testing.T) {
	for name, test := range mixedRates {
		for _, byFast := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newClocked(t)
				slow, fast := New(f.client, "name", test.slow), New(f.client, "name", test.fast)
				of := f.take(slow, 20)
				f.advance(time.Second)
				other := f.take(fast, 10)
				l := slow
				if byFast {
					l = fast
				}
				assert.EqualValues(t, 10, f.refund(l, of, 20).Remaining)
				assert.EqualValues(t, 20, f.refund(l, other, 10).Remaining)
				assert.Empty(t, f.redis.Keys())
			})
		}
	}
}

// TestRefund_RateLowered_ReturnsTheGrant: only what was refilled since is not returned, by the rate of that time.
func TestRefund_RateLowered_ReturnsTheGrant(t *testing.T) {
	for name, test := range mixedRates {
		t.Run(name, func(t *testing.T) {
			f := newClocked(t)
			slow, fast := New(f.client, "name", test.slow), New(f.client, "name", test.fast)
			f.take(fast, 10)
			of := f.take(slow, 10)
			f.advance(5 * time.Second)
			f.take(slow, 4)
			text, err := f.redis.Get("{name}:bucket:1000")
			if name == "leaky" {
				text, err = f.redis.Get("{name}:leaky:1000")
			}
			require.NoError(t, err)
			state, ok := TokenBucket{20, 1, time.Second}.read(policy.Content{Text: text, TTL: 20_000,
				Now: time.UnixMicro(f.now)})
			assert.True(t, ok, text)
			assert.EqualValues(t, 19, state.Taken, text)
			assert.EqualValues(t, 11, f.refund(slow, of, 10).Remaining, "5 are refilled, and 4 taken")
		})
	}
}

// withReceipt takes permits by one of these calls, and returns the receipt.
func withReceipt(t testing.TB, l *Limiter, call string, permits int64) receipt.Receipt {
	t.Helper()
	var err error
	var result engine.Result
	ask := engine.Ask{Permits: permits, Detail: true, Receipt: true, Each: call == "TakeEach"}
	switch call {
	case "Acquire":
		_, err = (*handle)(l).Wait(t.Context(), ask, time.Time{}, &result)
	case "TryAcquireWithin":
		_, err = (*handle)(l).Wait(t.Context(), ask, time.Now().Add(time.Minute), &result)
	default:
		err = (*handle)(l).Try(t.Context(), ask, &result)
	}
	require.NoError(t, err)
	require.NotNil(t, result.Refund, "%s has left no receipt", call)
	return receipt.Receipt{Permits: permits, Refund: result.Refund}
}

// joinedLimiters opens each policy alone and in a Join with a limiter of Redisson's layout.
func joinedLimiters(t testing.TB, client *rratelimiter.Client, p Policy, interval time.Duration) map[string]*Limiter {
	shared := client.Limiter("{name}:shared")
	require.NoError(t, shared.SetRate(t.Context(), rratelimiter.Rate{Permits: 1000, Interval: interval}))
	alone := New(client, "{name}:policy", p)
	return map[string]*Limiter{"alone": alone, "joined": Join(alone, shared), "joined, shared first": Join(shared, alone)}
}

// TestReceipt_SameWindow_RefundsItsPermits: in parts too, and if others have taken permits since.
func TestReceipt_SameWindow_RefundsItsPermits(t *testing.T) {
	t.Parallel()
	for _, p := range everyPolicy {
		if _, held := p.(InFlight); held {
			continue // a refund leaves places as they are
		}
		for call := range takingCalls {
			for _, kind := range []string{"alone", "joined", "joined, shared first"} {
				quick := call == "Take" || kind == "alone" && (p == models[0].ten || p == tenBucket)
				if call == "TakeUpTo" || !quick && redistest.Deep(0, 1) == 0 { // TakeUpTo leaves no receipt
					continue
				}
				runWithRedis(t, fmt.Sprintf("%T, %s, %s", p, call, kind), func(t *testing.T, f *fixture) {
					l := joinedLimiters(t, f.client, p, time.Hour)[kind]
					if _, ok := p.(Smooth); ok {
						require.True(t, redistest.Result(t, l.TryAcquire, 10), "the stored permits")
						taken := withReceipt(t, l, call, 4)
						require.False(t, redistest.Result(t, l.TryAcquire, 1))
						require.NoError(t, taken.Refund(t.Context(), 4))
						assert.True(t, redistest.Result(t, l.TryAcquire, 1))
						return
					}
					taken := withReceipt(t, l, call, 4)
					time.Sleep(time.Millisecond)
					require.True(t, redistest.Result(t, l.TryAcquire, 5))
					require.NoError(t, taken.Refund(t.Context(), 3))
					for _, d := range redistest.Peek(t, l) {
						assert.EqualValues(t, d.Limit-6, d.Remaining)
					}
					if _, isCalendar := p.(Calendar); isCalendar || p == everyPolicy[0] {
						return // the window after a Reset ends when the one of the grant would
					}
					require.NoError(t, l.Reset(t.Context()))
					require.True(t, redistest.Result(t, l.TryAcquire, 5))
					require.NoError(t, taken.Refund(t.Context(), 1))
					for _, d := range redistest.Peek(t, l) {
						assert.EqualValues(t, d.Limit-5, d.Remaining, "after a Reset")
					}
				})
			}
		}
	}
}

// TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy: nothing is left of the grant of the other.
func TestReceipt_RateOfTheOtherMemberIsGone_RefundsThePolicy(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := FixedWindow{Permits: 10, Interval: time.Hour}
		for _, kind := range []string{"joined", "joined, shared first"} {
			f.Redis.FlushAll()
			taken := withReceipt(t, joinedLimiters(t, f.client, p, time.Hour)[kind], "TryAcquire", 4)
			f.Redis.Del("{name}:shared")
			require.NoError(t, taken.Refund(t.Context(), 4), kind)
			assert.True(t, redistest.Result(t, New(f.client, "{name}:policy", p).TryAcquire, 10), kind)
		}
	})
}
