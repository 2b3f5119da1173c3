package limit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// ask sends a batch of requests and returns it with its answers.
func (f *clocked) ask(l *Limiter, asks ...engine.Ask) *engine.Batch {
	f.Helper()
	return f.send(l, protocol{&l.wire}, asks...)
}

// send is ask with a protocol.
func (f *clocked) send(l *Limiter, p engine.Protocol, asks ...engine.Ask) *engine.Batch {
	f.Helper()
	batch := new(engine.Batch)
	for _, ask := range asks {
		batch.Requests = append(batch.Requests, &engine.Request{Ask: ask})
	}
	p.Arguments(batch, time.UnixMicro(f.now))
	script, keys := p.Call(batch)
	reply, err := l.wire.plan.client.Engine.Eval(f.Context(), nil, script, keys, batch.Args, nil)
	require.NoError(f, err)
	batch.Reply = reply
	again, err := p.Answer(batch, reply)
	require.NoError(f, err)
	require.False(f, again)
	return batch
}

// take takes permits and returns the receipts of the grant.
func (f *clocked) take(l *Limiter, permits int64) []string {
	f.Helper()
	batch := f.ask(l, engine.Ask{Permits: permits})
	require.True(f, batch.Requests[0].Allowed)
	return receiptsOf(batch)
}

// refund returns permits of a grant, and reports the free permits of the first policy.
func (f *clocked) refund(l *Limiter, receipts []string, permits int64) rratelimiter.Decision {
	f.Helper()
	require.NoError(f, l.wire.refund(f.Context(), permits, receipts...))
	return peekAll(f, l)[0]
}

// lose takes permits for a caller that leaves, and returns the function that refunds them.
func (f *clocked) lose(l *Limiter, permits int64, detail bool) (refund func(context.Context)) {
	f.Helper()
	batch := f.ask(l, engine.Ask{Permits: permits, Detail: detail})
	require.True(f, batch.Requests[0].Allowed)
	batch.Lost, batch.LostPermits, batch.Granted = batch.Requests, permits, permits
	return protocol{&l.wire}.Refund(batch)
}

// forget are the ways in which a state ends.
var forget = map[string]func(f *clocked, l *Limiter){
	"Reset":    func(f *clocked, l *Limiter) { require.NoError(f, l.Reset(f.Context())) },
	"expiry":   func(f *clocked, l *Limiter) { f.redis.FastForward(1000 * 24 * time.Hour) },
	"eviction": func(f *clocked, l *Limiter) { f.redis.FlushAll() },
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
				f := newClocked(t)
				l := New(f.client, "name", policies...)
				refund := f.lose(l, 4, detail)
				end(f, l)
				since := int64(7)
				if _, ok := policies[0].(Smooth); ok {
					since = 14 // 4 more than were stored
				}
				f.take(l, since)
				want := peekAll(t, l)
				refund(t.Context())
				assert.Equal(t, want, peekAll(t, l), "%s, %t, %T", name, detail, policies[0])
			}
		}
	}
}

// TestLease_ReturnedAfterReset_ReturnsNothing: others have taken permits since.
func TestLease_ReturnedAfterReset_ReturnsNothing(t *testing.T) {
	const permits = 1000
	for _, p := range []Policy{FixedWindow{permits, time.Hour, false}, FixedWindow{permits, time.Hour, true},
		Calendar{permits, Year, nil}} {
		inLease(t, []Policy{p}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
			require.Equal(t, 100, f.CountGranted(l, 100, 20*time.Microsecond)) // some are leased
			other := New(rratelimiter.New(f.Conn), "name", p)
			require.NoError(t, other.Reset(t.Context()))
			require.True(t, redistest.Result(t, other.Take, permits).Allowed)
			time.Sleep(100 * time.Millisecond) // the lease ends
			assert.Zero(t, peekAll(t, other)[0].Remaining, "%T", p)
		})
	}
}

// TestRefund_SlotMoves_IsRepeated: for longer than the quarter of a second of other calls.
func TestRefund_SlotMoves_IsRepeated(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", TokenBucket{5, 1, time.Hour})
		taken := withReceipt(t, l, "TryAcquire", 5)
		f.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(30*time.Second, func() { f.Redis.SetError("") })
		go func() { _ = taken.Refund(engine.Unattended(t.Context()), 5) }()
		time.Sleep(31 * time.Second)
		assert.EqualValues(t, 5, peekAll(t, l)[0].Remaining)
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
			ok, err := other.TryAcquire(t.Context(), 10)
			require.NoError(t, err)
			require.True(t, ok)
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
				if ok, err := other.TryAcquire(t.Context(), 1); err == nil && ok {
					others++
				}
			}
			require.NoError(t, taken.Settle(t.Context()))
			d := peekAll(t, other)[0]
			assert.LessOrEqual(t, others+d.Remaining, int64(10), "round %d: others hold %d", round, others)
		}
	})
}

// TestRefund_SmoothGrantOfStoredPermits_FreesNothingOfOthers: it cost nothing.
func TestRefund_SmoothGrantOfStoredPermits_FreesNothingOfOthers(t *testing.T) {
	f := newClocked(t)
	l := New(f.client, "name", Smooth{Permits: 1, Interval: time.Second, Burst: 5 * time.Second})
	grant := f.take(l, 5)
	f.take(l, 3)
	d := f.refund(l, grant, 5)
	assert.Equal(t, 3*time.Second, d.RetryAfter)
}
