package rratelimiter

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRepliesOfTheLeaseScript: how much is leased, and until when.
func TestRepliesOfTheLeaseScript(t *testing.T) {
	const most = 1<<32 - 1
	for name, test := range map[string]struct {
		rate              Rate
		expires           time.Duration
		keepAlive         int
		permits, wanted   int64
		leased, span, all int64 // all: permits of the grant
	}{
		"as many as wanted":      {rate: Rate{Permits: 1000, Interval: time.Second}, permits: 10, wanted: 400, leased: 400, span: 10, all: 410},
		"half of what is free":   {rate: Rate{Permits: 1000, Interval: time.Second}, permits: 11, wanted: 900, leased: 494, span: 10, all: 505},
		"none of the last 125":   {rate: Rate{Permits: 1000, Interval: time.Second}, permits: 860, wanted: 900, leased: 15, span: 10, all: 875},
		"nothing is left":        {rate: Rate{Permits: 1000, Interval: time.Second}, permits: 875, wanted: 900, all: 875},
		"not granted":            {rate: Rate{Permits: 1000, Interval: time.Second}, permits: 1001, wanted: 900},
		"for nobody in the call": {rate: Rate{Permits: 1000, Interval: time.Second}, wanted: 100, leased: 100, span: 10, all: 100},
		"what a member holds":    {rate: Rate{Permits: 1 << 50, Interval: time.Second}, permits: 7, wanted: 1 << 40, leased: most - 7, span: 10, all: most},
		"a short interval":       {rate: Rate{Permits: 1000, Interval: 100 * time.Millisecond}, permits: 1, wanted: 100, leased: 100, span: 6, all: 101},
		"a shorter one":          {rate: Rate{Permits: 1000, Interval: 15 * time.Millisecond}, permits: 1, wanted: 100, all: 1},
		"it lives":               {rate: Rate{Permits: 1000, Interval: time.Second}, keepAlive: 1010, permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
		"it may be gone":         {rate: Rate{Permits: 1000, Interval: time.Second}, keepAlive: 1009, permits: 1, wanted: 100, all: 1},
		"it expires later":       {rate: Rate{Permits: 1000, Interval: time.Second}, expires: 1010 * time.Millisecond, permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
		"it expires by then":     {rate: Rate{Permits: 1000, Interval: time.Second}, expires: 1009 * time.Millisecond, permits: 1, wanted: 100, all: 1},
		"for each client":        {rate: Rate{Type: PerClient, Permits: 1000, Interval: time.Second}, permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(test.rate)
				if test.expires > 0 {
					_, err := l.Expire(b.Context(), test.expires)
					require.NoError(b, err)
				}
				b.Redis.HSet("limiter", "keepAliveTime", strconv.Itoa(test.keepAlive)) // Java sets a short one too
				runs := " "
				if test.permits > 0 {
					runs = ""
				}
				now := time.Now().UnixMilli()
				member := string(new(Client).appendMember(nil, test.permits, false))
				message, err := l.wire.client.engine.Eval(b.Context(), leaseScript, l.wire.keys[:], []string{
					strconv.FormatInt(now, 10), member, b.config().rate, b.config().interval, strconv.FormatInt(test.permits, 10), "", "", runs, "",
					strconv.FormatInt(test.wanted, 10), "10",
				}, nil)
				require.NoError(b, err)
				reply, err := message.ToArray()
				if test.leased > 0 {
					require.NoError(b, err)
					require.Len(b, reply, 7)
					left := test.rate.Permits - test.all
					for i, want := range []int64{replyLeased, test.leased, test.span, test.rate.Permits, test.rate.Interval.Milliseconds(), left, left} {
						got, err := reply[i].AsInt64()
						require.NoError(b, err)
						assert.Equal(b, want, got, "element %d", i+1)
					}
				}
				set, value := "{limiter}:permits", "{limiter}:value"
				if test.rate.Type == PerClient {
					set, value = set+":"+l.wire.client.ID(), value+":"+l.wire.client.ID()
				}
				grants, _ := b.Redis.SortedSet(set)
				if test.all == 0 {
					assert.Empty(b, grants)
					return
				}
				require.Len(b, grants, 1)
				assert.InDelta(b, float64(now+test.span), grants[string(appendUint32([]byte(member[:17]), test.all))], 0)
				stored, err := b.Redis.Get(value)
				require.NoError(b, err)
				assert.Equal(b, strconv.FormatInt(test.rate.Permits-test.all, 10), stored)
			})
		})
	}
}

// endsOnceAsked is a context that ends as soon as somebody has been told that it has not.
type endsOnceAsked struct {
	context.Context
	end context.CancelFunc
}

func (c endsOnceAsked) Err() error {
	defer c.end()
	return c.Context.Err()
}

// TestNothingThatIsLeasedIsLostToACallerWhoLeaves: what is taken from those to come goes back, or stays theirs.
func TestNothingThatIsLeasedIsLostToACallerWhoLeaves(t *testing.T) {
	const lease = 10 * time.Millisecond
	for name, call := range map[string]func(ctx context.Context, l *Limiter) error{
		"Flush": func(ctx context.Context, l *Limiter) error { return l.wire.client.Flush(ctx) },
		"a request that needs what is leased": func(ctx context.Context, l *Limiter) error {
			_, err := l.TryAcquire(ctx, 700)
			return err
		},
	} {
		for when, once := range map[string]bool{"before": false, "once it has begun": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				inBubble(t, func(b *bubble) {
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
					synctest.Wait() // which is remembered
					inner, end := context.WithCancel(b.Context())
					ctx := context.Context(endsOnceAsked{inner, end})
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
			})
		}
	}
}
