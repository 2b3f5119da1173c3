package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestSmooth_RequestsOfOneCall_AreDecidedInTurn: as if each came alone after those before it.
func TestSmooth_RequestsOfOneCall_AreDecidedInTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, p := range []Smooth{
		{Permits: 10, Interval: time.Second, Burst: 3 * time.Second},
		{Permits: 10, Interval: time.Second, WarmUp: 3 * time.Second},
	} {
		f, l := clockedLimiter(t, p)
		m, _ := modelOf(p)
		several := 0
		for step := range 200 {
			f.advance(micros(random.Int64N(2e6)))
			var asks []engine.Ask
			var want []bool
			var remaining []int64
			for range 1 + random.IntN(6) {
				r := engine.Ask{Permits: 1 + random.Int64N(9), Detail: true}
				asks = append(asks, r)
				want = append(want, policymodel.Take(m, f.now, r.Permits))
				remaining = append(remaining, m.Free(f.now))
			}
			batch := f.ask(l, asks...)
			for i, r := range batch.Requests {
				where := fmt.Sprintf("%+v, step %d, request %d of %v", p, step, i, batch.Args)
				require.Equal(t, want[i], r.Allowed, where)
				// A call reports the time after all of its requests.
				if i == len(want)-1 || want[i+1] {
					require.Equal(t, remaining[i], r.Remaining, where)
				}
				if i > 0 && r.Allowed {
					several++
				}
			}
		}
		assert.Equal(t, p.WarmUp == 0, several > 50, "%d", several)
	}
}

// TestSmooth_CostAboveABound_IsRefused: the error has a type. Without it, the limiter would grant
// no more.
func TestSmooth_CostAboveABound_IsRefused(t *testing.T) {
	f, l := clockedLimiter(t, Smooth{Permits: 1, Interval: time.Hour})
	for _, permits := range []int64{1<<32 - 1, 1 << 31} {
		for name, err := range map[string]error{
			"TryAcquire": func() error { return redistest.Err(l.TryAcquire(t.Context(), permits)) }(),
			"Acquire":    l.Acquire(t.Context(), permits),
		} {
			assert.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate, name)
		}
	}
	assert.Empty(t, f.redis.Keys())
}

// TestSmooth_ArgumentsFrom63Bits_AreNumbers for miniredis too: the most stored permits, and the
// number of them above which they cost more.
func TestSmooth_ArgumentsFrom63Bits_AreNumbers(t *testing.T) {
	for _, p := range []Smooth{
		{Permits: maxPermits, Interval: time.Second, Burst: time.Hour},
		{Permits: maxPermits, Interval: time.Second, WarmUp: 10 * time.Hour},
	} {
		f := newClocked(t)
		granted, _ := takeUpTo(t, New(f.client, "name", p), 5)
		assert.EqualValues(t, 5, granted, "%+v", p)
	}
}
