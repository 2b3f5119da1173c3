package policies

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/rratelimiter/rratelimiter/integration/tools/clocked"
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
