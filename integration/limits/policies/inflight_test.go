package policies

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestInFlight_OneProcess_GrantsAsASemaphore of golang.org/x/sync, while no lease ends.
func TestInFlight_OneProcess_GrantsAsASemaphore(t *testing.T) {
	t.Parallel()
	const places = 20
	s := clocked.Start(t)
	l := limit.New(s.Client, "name", limit.InFlight{Permits: places, Lease: time.Hour})
	oracle, random := semaphore.NewWeighted(places), rand.New(rand.NewPCG(1, 2))
	type call struct {
		taken  *limit.Taken
		weight int64
	}
	var calls []call
	denied := 0
	for range 2000 {
		s.Now = s.Now.Add(time.Duration(random.Int64N(int64(time.Millisecond))))
		if random.IntN(2) == 0 && len(calls) > 0 {
			i := random.IntN(len(calls))
			require.NoError(t, calls[i].taken.Settle(t.Context(), random.Int64N(9)))
			oracle.Release(calls[i].weight)
			calls[i] = calls[len(calls)-1]
			calls = calls[:len(calls)-1]
			continue
		}
		c := call{new(limit.Taken), 1 + random.Int64N(6)}
		d, err := c.taken.Take(t.Context(), c.weight, l)
		require.NoError(t, err)
		require.Equal(t, oracle.TryAcquire(c.weight), d.Allowed)
		if denied++; d.Allowed {
			calls, denied = append(calls, c), denied-1
		}
	}
	assert.Greater(t, denied, 100)
}

// TestInFlight_ManyPlaces_CallsStayShort: with 100,000 held places a call takes no longer than with a few,
// but for the logarithm of the sorted set; also when all leases have ended.
func TestInFlight_ManyPlaces_CallsStayShort(t *testing.T) {
	const places = 100_000
	s := clocked.Start(t)
	l := limit.New(s.Client, "name", limit.InFlight{Permits: 2 * places, Lease: time.Hour})
	timed := func(calls int, call func()) time.Duration {
		start := time.Now()
		for range calls {
			call()
		}
		return time.Since(start) / time.Duration(calls)
	}
	round := func() {
		s.Now = s.Now.Add(time.Millisecond)
		var taken limit.Taken
		require.NoError(t, taken.Acquire(t.Context(), 1, l))
		require.NoError(t, taken.Settle(t.Context(), 1))
	}
	few := timed(500, round)
	for i := range places {
		if i%20 == 0 {
			s.Now = s.Now.Add(time.Millisecond)
		}
		require.True(t, redistest.Result(t, l.TryAcquire, 1))
	}
	many := timed(500, round)
	s.Now = s.Now.Add(time.Hour - 2500*time.Millisecond) // half of the leases have ended
	pages := timed(1, func() { require.True(t, redistest.Result(t, l.TryAcquire, 140_000)) })
	s.Now = s.Now.Add(2 * time.Hour)
	all := timed(1, func() { require.True(t, redistest.Result(t, l.TryAcquire, 2*places)) })
	t.Logf("a grant and its return: %v with few places held, %v with 100,000; after 50,000 leases: %v; after all: %v",
		few, many, pages, all)
	assert.Less(t, many, 5*few)
}
