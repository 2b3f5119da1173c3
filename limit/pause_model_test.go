package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
)

// TestPause_RandomCalls_MatchTheModel: beside each kind of policy, with all fields of a Decision.
func TestPause_RandomCalls_MatchTheModel(t *testing.T) {
	for _, c := range []struct {
		policy          Policy
		permits, within int64
	}{
		{FixedWindow{10, 3 * time.Second, false}, 10, 3e6},
		{FixedWindow{7, 3 * time.Second, true}, 7, 3e6},
		{Calendar{1000, Month, nil}, 1000, 6e7},
		{SlidingLog{100, 200 * time.Millisecond}, 100, 2e5},
		{SlidingWindow{3, time.Hour, 0}, 3, 6e7},
		{TokenBucket{20, 5, time.Second}, 20, 4e6},
		{TokenBucket{7, 3, 11 * time.Millisecond}, 7, 25_667},
		{LeakyBucket{10, 2, time.Second}, 10, 5e6},
	} {
		for name, opts := range map[string][]rratelimiter.Option{
			"": nil, ", denials remembered": {rratelimiter.WithDenialCache(1 << 62)},
		} {
			t.Run(fmt.Sprintf("%T%+v%s", c.policy, c.policy, name), func(t *testing.T) {
				f := newClocked(t, opts...)
				m, limit := modelOf(c.policy)
				paused := &policymodel.Pause{Model: m, Permits: c.permits, Within: c.within}
				pauses(t, f, New(f.client, "name", c.policy, Pause{time.Minute}), paused, limit, rand.New(rand.NewPCG(1, 2)))
			})
		}
	}
}

// pauses runs random calls through a limiter with a Pause and its model.
func pauses(t *testing.T, f *clocked, l *Limiter, m *policymodel.Pause, limit int64, random *rand.Rand) {
	ctx, last := t.Context(), ""
	for step := range steps {
		most := 1 + random.Int64N(limit)
		switch random.IntN(6) {
		case 0:
			f.advance(micros(m.Wait(f.now, 1+random.Int64N(most))))
		case 1:
			f.advance(max(0, micros(m.Wait(f.now, 1+random.Int64N(most))-1)))
		case 2:
			f.advance(micros(m.Reset(f.now)))
		case 3:
			f.advance(micros(random.Int64N(1 + m.Reset(f.now)/4)))
		}
		n := 1 + random.Int64N(most)
		var got, want rratelimiter.Decision
		var err error
		switch random.IntN(12) {
		case 0:
			last = "Pause"
			d := random.Int64N(9e7)
			switch random.IntN(4) {
			case 0:
				d = 0
			case 1:
				d %= 1e6
			}
			err = l.Pause(ctx, micros(d))
			m.Pause(f.now, min(d, 6e7))
		case 1:
			last = "Charge"
			got, err = l.Charge(ctx, n)
			m.Charge(f.now, n)
			want = decision(m, limit, f.now, 1, m.Wait(f.now, 1) == 0)
		case 2:
			last = "Release"
			err = l.Release(ctx, n)
			m.Release(f.now, n)
		case 3:
			last = "TakeUpTo"
			var took int64
			took, got, err = l.TakeUpTo(ctx, n)
			free := min(n, max(0, m.Free(f.now)))
			require.Equal(t, free, took, "%d: TakeUpTo %d", step, n)
			if free > 0 {
				m.Charge(f.now, free)
			}
			want = decision(m, limit, f.now, 1, free > 0)
		default:
			last = "Take"
			got, err = l.Take(ctx, n)
			want = decision(m, limit, f.now, n, policymodel.Take(m, f.now, n))
		}
		require.NoError(t, err)
		// Remaining of a denial is that of the policy that denies for longest.
		if !want.Allowed {
			require.GreaterOrEqual(t, got.Remaining, int64(0))
			got.Remaining = want.Remaining
		}
		require.Equal(t, want, got, "%d: %s %d at %d", step, last, n, f.now-begin)
	}
}
