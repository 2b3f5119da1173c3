package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
				t.Run(fmt.Sprintf("%T, %s, %s", p, call, kind), func(t *testing.T) {
					withRedis(t, func(t *testing.T, f *fixture) {
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
						for _, d := range peekAll(t, l) {
							assert.EqualValues(t, d.Limit-6, d.Remaining)
						}
						if _, isCalendar := p.(Calendar); isCalendar || p == everyPolicy[0] {
							return // the window after a Reset ends when the one of the grant would
						}
						require.NoError(t, l.Reset(t.Context()))
						require.True(t, redistest.Result(t, l.TryAcquire, 5))
						require.NoError(t, taken.Refund(t.Context(), 1))
						for _, d := range peekAll(t, l) {
							assert.EqualValues(t, d.Limit-5, d.Remaining, "after a Reset")
						}
					})
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
