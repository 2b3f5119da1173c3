package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Policies with 10 permits, none of which returns within a minute.
var (
	everyPolicy = []Policy{
		FixedWindow{10, time.Hour, false}, FixedWindow{10, time.Hour, true}, Calendar{10, Year, nil},
		tenCells, tenLog, tenBucket, LeakyBucket{10, 1, time.Hour}, tenSmooth,
	}
	reservablePolicies = []Policy{tenBucket, LeakyBucket{10, 1, time.Hour}, tenSmooth}

	tenCells  = SlidingWindow{10, time.Hour, 0}
	tenLog    = SlidingLog{10, time.Hour}
	tenBucket = TokenBucket{10, 1, time.Hour}
	tenSmooth = Smooth{Permits: 1, Interval: time.Hour, Burst: 10 * time.Hour}
)

// ask sends a batch of requests and returns it with its answers.
func (b *bench) ask(l *Limiter, asks ...engine.Ask) *engine.Batch {
	b.Helper()
	return b.send(l, acquireProtocol{protocol{&l.wire}}, asks...)
}

// send is ask with a protocol.
func (b *bench) send(l *Limiter, p engine.Protocol, asks ...engine.Ask) *engine.Batch {
	b.Helper()
	batch := new(engine.Batch)
	for _, ask := range asks {
		batch.Requests = append(batch.Requests, &engine.Request{Ask: ask})
	}
	p.Arguments(batch, time.UnixMicro(b.now))
	script, keys := p.Call(batch)
	reply, err := l.wire.plan.client.Engine.Eval(b.Context(), nil, script, keys, batch.Args, nil)
	require.NoError(b, err)
	batch.Reply = reply
	again, err := p.Answer(batch, reply)
	require.NoError(b, err)
	require.False(b, again)
	return batch
}

// receiptsOf returns the receipts of the grants of a batch.
func receiptsOf(batch *engine.Batch) []string {
	if s, ok := batch.Forecast.(*state); ok {
		return s.receipts
	}
	receipts, _ := batch.Reply.AsStrSlice()
	return receipts
}

// take takes permits and returns the receipts of the grant.
func (b *bench) take(l *Limiter, permits int64) []string {
	b.Helper()
	batch := b.ask(l, engine.Ask{Permits: permits})
	require.True(b, batch.Requests[0].Allowed)
	return receiptsOf(batch)
}

// refund returns permits of a grant, and reports the free permits of the first policy.
func (b *bench) refund(l *Limiter, receipts []string, permits int64) rratelimiter.Decision {
	b.Helper()
	require.NoError(b, l.wire.refund(b.Context(), release, fmt.Sprint(permits), receipts...))
	return mustPeek(b, l)[0]
}

// lose takes permits for a caller that leaves, and returns the function that refunds them.
func (b *bench) lose(l *Limiter, permits int64, detail bool) (refund func(context.Context)) {
	b.Helper()
	batch := b.ask(l, engine.Ask{Permits: permits, Detail: detail})
	require.True(b, batch.Requests[0].Allowed)
	batch.Lost, batch.LostPermits, batch.Granted = batch.Requests, permits, permits
	return acquireProtocol{protocol{&l.wire}}.Refund(batch)
}

// forget are the ways in which a state ends.
var forget = map[string]func(b *bench, l *Limiter){
	"Reset":    func(b *bench, l *Limiter) { require.NoError(b, l.Reset(b.Context())) },
	"expiry":   func(b *bench, l *Limiter) { b.redis.FastForward(1000 * 24 * time.Hour) },
	"eviction": func(b *bench, l *Limiter) { b.redis.FlushAll() },
}

// TestRefund_StateBeganSince_ReturnsNothing: the clock stands still, so that the states have the
// same time.
func TestRefund_StateBeganSince_ReturnsNothing(t *testing.T) {
	lists := [][]Policy{{tenCells, tenLog, tenBucket}}
	for _, p := range everyPolicy {
		lists = append(lists, []Policy{p})
	}
	for name, end := range forget {
		for _, detail := range []bool{false, true} {
			for _, policies := range lists {
				b := newBench(t)
				l := New(b.client, "name", policies...)
				refund := b.lose(l, 4, detail)
				end(b, l)
				since := int64(7)
				if _, ok := policies[0].(Smooth); ok {
					since = 14 // 4 more than were stored
				}
				b.take(l, since)
				want := mustPeek(t, l)
				refund(t.Context())
				assert.Equal(t, want, mustPeek(t, l), "%s, %t, %T", name, detail, policies[0])
			}
		}
	}
}

// TestRefund_SameState_ReturnsAll, also if the state is dated by a clock that is ahead, in the next
// year, hour and cell.
func TestRefund_SameState_ReturnsAll(t *testing.T) {
	for _, p := range everyPolicy {
		for _, detail := range []bool{false, true} {
			for _, ahead := range []time.Duration{0, time.Second} {
				b := newBench(t)
				b.back = true
				b.set(time.Date(2026, time.January, 1, 0, 0, 0, 800_000_000, time.UTC).UnixMicro())
				l := New(b.client, "name", p)
				b.take(l, 2)
				if _, ok := p.(Smooth); ok {
					b.take(l, 8) // all stored permits
				}
				b.pass(-ahead)
				b.lose(l, 4, detail)(t.Context())
				got := mustPeek(t, l)
				if _, ok := p.(Smooth); ok {
					assert.True(t, got[0].Allowed)
				} else {
					assert.EqualValues(t, 8, got[0].Remaining, "%T", p)
				}
			}
		}
	}
}

// TestCancel_StateBeganSince_ReturnsNothing, also while others wait.
func TestCancel_StateBeganSince_ReturnsNothing(t *testing.T) {
	for name, end := range forget {
		for _, p := range reservablePolicies {
			for _, before := range []int64{0, 1, 15} {
				b := newBench(t)
				l := New(b.client, "name", p)
				reserve := func(permits int64) *Reservation { return must(t, l.Reserve, permits) }
				for rest := before; rest > 0; rest -= 5 {
					reserve(min(rest, 5))
				}
				lost := reserve(5)
				end(b, l)
				for range 4 {
					reserve(5)
				}
				want := mustPeek(t, l)
				require.NoError(t, lost.revoke(t.Context()))
				assert.Equal(t, want, mustPeek(t, l), "%s, %T, %d before", name, p, before)
			}
		}
	}
}

// TestLease_ReturnedAfterReset_ReturnsNothing: others have taken permits since.
func TestLease_ReturnedAfterReset_ReturnsNothing(t *testing.T) {
	const permits = 1000
	for _, p := range []Policy{FixedWindow{permits, time.Hour, false}, FixedWindow{permits, time.Hour, true},
		Calendar{permits, Year, nil}} {
		inLease(t, []Policy{p}, func(b *redistest.Fixture, l *Limiter) {
			require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond)) // some are leased
			other := New(rratelimiter.New(b.Conn), "name", p)
			require.NoError(b, other.Reset(b.Context()))
			require.True(b, must(b, other.Take, permits).Allowed)
			redistest.Pass(100 * ms) // the lease ends
			assert.Zero(b, mustPeek(b, other)[0].Remaining, "%T", p)
		})
	}
}

// TestRefund_SlotMoves_IsRepeated: for longer than the quarter of a second of other calls.
func TestRefund_SlotMoves_IsRepeated(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", TokenBucket{5, 1, time.Hour})
		r := must(b, l.Reserve, 5)
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(30*time.Second, func() { b.Redis.SetError("") })
		r.revokeLater(b.Context())
		time.Sleep(31 * time.Second)
		assert.EqualValues(b, 5, mustPeek(b, l)[0].Remaining)
	})
}

// TestRefund_Lease_Stays: the permits of a caller that left return. Leased ones are granted from
// memory all the same, as with a rratelimiter.Limiter.
func TestRefund_Lease_Stays(t *testing.T) {
	inLease(t, []Policy{FixedWindow{100_000, time.Hour, false}}, func(b *redistest.Fixture, l *Limiter) {
		other := New(rratelimiter.New(b.Conn), "name", FixedWindow{100_000, time.Hour, false})
		lost, err := other.wire.ask(b.Context(), charge, "7", newEpoch())
		require.NoError(b, err)
		require.Equal(b, 100, b.Often(l, 100, 20*time.Microsecond))
		before := mustPeek(b, other)
		require.NoError(b, l.wire.refund(b.Context(), release, fmt.Sprint(7), lost.receipts...))
		calls := b.Scripts.Load()
		require.Equal(b, 5, b.Often(l, 5, 0))
		assert.Equal(b, calls, b.Scripts.Load(), "granted from the lease")
		assert.Equal(b, before[0].Remaining+7, mustPeek(b, other)[0].Remaining)
	})
}

// TestRefund_OvertakenCalls_AreWholeAndOnce: clocks are behind one another, and some go back.
// Refunded permits return at once, and no more are free than the others have left.
func TestRefund_OvertakenCalls_AreWholeAndOnce(t *testing.T) {
	type grant struct {
		at, dated, permits int64
		receipts           []string
	}
	for _, test := range []struct {
		policy  Policy
		word    int   // of the text, that is the newest entry
		counted int64 // how many entries before the newest count
	}{
		{SlidingLog{20, time.Second}, 1, 999},
		{SlidingWindow{20, time.Second, 10}, 2, 10},
	} {
		t.Run(fmt.Sprintf("%T", test.policy), func(t *testing.T) {
			b := newBench(t)
			b.back = true
			l := New(b.client, "name", test.policy)
			random := rand.New(rand.NewPCG(11, 12))
			var grants []grant
			taken := func() (sum int64) { // by all grants without a refund
				for _, g := range grants {
					if g.at >= grants[len(grants)-1].at-test.counted {
						sum += g.permits
					}
				}
				return sum
			}
			overtaken, back := 0, 0
			for range 2 * steps {
				b.pass(micros(random.Int64N(100_000)))
				behind := micros(random.Int64N(1+random.Int64N(300_000)) / 1000 * 1000)
				b.pass(-behind)
				batch := b.ask(l, engine.Ask{Permits: 1 + random.Int64N(6)})
				if r := batch.Requests[0]; r.Allowed {
					receipts := receiptsOf(batch)
					at, err := strconv.ParseInt(strings.Fields(receipts[0])[test.word], 10, 64)
					require.NoError(t, err)
					grants = append(grants, grant{at, b.now, r.Granted, receipts})
					require.LessOrEqual(t, taken(), int64(20))
					if len(grants) > 1 && behind > 0 {
						overtaken++
					}
				}
				b.pass(behind)
				if len(grants) > 1 && random.IntN(3) == 0 {
					// One of the last, but not the newest, whose time shows how late it is.
					which := len(grants) - 2 - random.IntN(min(5, len(grants)-1))
					before := mustPeek(t, l)
					after := b.refund(l, grants[which].receipts, grants[which].permits)
					// If it has expired by a clock that is ahead, its permits have returned
					// already.
					if b.now-grants[which].dated < 500_000 {
						assert.Equal(t, grants[which].permits, after.Remaining-before[0].Remaining)
						back++
					}
					grants = slices.Delete(grants, which, which+1)
				}
			}
			assert.Greater(t, overtaken, steps/4)
			assert.Greater(t, back, steps/4)
		})
	}
}
