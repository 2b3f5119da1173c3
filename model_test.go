package rratelimiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestLimiter_RandomCalls_MatchTheModel: with all fields of a Decision. Leased permits are taken
// until an interval after their lease, so a Client that leases may deny more, and promises no more.
func TestLimiter_RandomCalls_MatchTheModel(t *testing.T) {
	for _, rate := range []Rate{
		{Permits: 10, Interval: time.Second},
		{Permits: 100, Interval: 20 * time.Second},
		{Permits: 1000, Interval: time.Hour, Type: PerClient},
	} {
		for name, opts := range map[string][]Option{
			"plain":              nil,
			"denials remembered": {WithDenialCache(1 << 62)},
			"leased":             {WithLease(time.Second)},
			"both":               {WithLease(time.Second), WithDenialCache(1 << 62)},
		} {
			leases := name == "leased" || name == "both"
			runWithRedis(t, fmt.Sprintf("%d in %v, %s", rate.Permits, rate.Interval, name), func(t *testing.T, f *fixture) {
				for seed := range uint64(redistest.Deep(1, 4)) {
					f.Redis.FlushAll()
					f.randomCalls(f.limiter(rate, opts...), rate, rand.New(rand.NewPCG(1, seed)), leases)
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// randomCalls makes random calls of a limiter and compares their answers with the model's.
func (f *fixture) randomCalls(l *Limiter, rate Rate, random *rand.Rand, leases bool) {
	m := &policymodel.SlidingLog{Permits: rate.Permits, Interval: rate.Interval.Microseconds()}
	ctx := f.Context()
	var log []string
	for step := range redistest.Deep(120, 250) {
		switch now := time.Now().UnixMicro(); random.IntN(8) {
		case 0:
			time.Sleep(time.Duration(m.Wait(now, 1+random.Int64N(rate.Permits))) * time.Microsecond)
		case 1:
			time.Sleep(time.Duration(random.Int64N(1+rate.Interval.Milliseconds()/8)) * time.Millisecond)
		case 2, 3:
			time.Sleep(time.Duration(random.Int64N(20)) * time.Millisecond)
		}
		synctest.Wait() // leases that have ended are returned
		now := time.Now().UnixMicro()
		n := 1 + random.Int64N(1+random.Int64N(rate.Permits))
		if random.IntN(4) > 0 {
			n = 1 + n/20
		}
		var call string
		var got Decision
		var err error
		took, permits := int64(0), n // permits that it asks for
		switch random.IntN(12) {
		case 0:
			call, err = "Release", l.Release(ctx, n)
			m.Release(now, n)
		case 1:
			call, permits = "TakeUpTo", 1
			took, got, err = l.TakeUpTo(ctx, n)
			require.LessOrEqual(f, took, max(0, m.Free(now)), "%v %d: TakeUpTo %d", log[max(0, len(log)-5):], step, n)
			if !leases {
				require.Equal(f, min(n, max(0, m.Free(now))), took, "%v", log[max(0, len(log)-5):])
			}
		default:
			call = "Take"
			if got, err = l.Take(ctx, n); got.Allowed {
				took = n
			}
		}
		require.NoError(f, err)
		log = append(log, fmt.Sprintf("%d: at %d %s %d: %+v", step, now/1000, call, n, got))
		if call == "Release" {
			continue
		}
		want := Decision{Allowed: m.Wait(now, permits) == 0, Limit: rate.Permits}
		if want.RetryAfter = time.Duration(m.Wait(now, permits)) * time.Microsecond; took > 0 {
			require.True(f, policymodel.Take(m, now, took), "%v", log[max(0, len(log)-5):])
		}
		want.Remaining, want.ResetAfter = max(0, m.Free(now)), time.Duration(m.Reset(now))*time.Microsecond
		if !got.Allowed || leases {
			require.LessOrEqual(f, got.Remaining, want.Remaining, "%v", log[max(0, len(log)-5):])
			want.Remaining = got.Remaining // permits that have returned since do not count
		}
		if leases {
			require.GreaterOrEqual(f, got.ResetAfter, want.ResetAfter, "%v", log[max(0, len(log)-5):])
			want.Allowed, want.RetryAfter, want.ResetAfter = got.Allowed, got.RetryAfter, got.ResetAfter
		}
		require.Equal(f, want, got, "%v", log[max(0, len(log)-5):])
	}
}
