package engine_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestRelease_SeveralCallersWithLeases_AllIsReturned: of a lease that one caller has revoked, another
// one's Release must not take the unused permits for those that were used. The permits are taken
// before, or meanwhile.
func TestRelease_SeveralCallersWithLeases_AllIsReturned(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		for seed := range uint64(4) {
			withRedis(t, func(b *fixture) {
				l := b.limiter(rratelimiter.Rate{Permits: 10_000, Interval: time.Hour}, rratelimiter.WithLease(time.Second))
				b.Latency.Store(int64(time.Duration(seed) * 100 * time.Microsecond))
				if !meanwhile {
					require.Equal(b, 300, b.Often(l, 300, 30*time.Microsecond))
				}
				var callers sync.WaitGroup
				for i := range uint64(30) {
					random := rand.New(rand.NewPCG(seed, i))
					callers.Go(func() {
						if meanwhile {
							require.Equal(b, 10, b.Often(l, 10, time.Duration(random.IntN(100))*time.Microsecond))
						}
						for range 10 {
							pass(time.Duration(random.IntN(100)) * time.Microsecond)
							require.NoError(b, l.Release(b.Context(), 1))
						}
					})
				}
				callers.Wait()
				require.NoError(b, b.client.Flush(b.Context()))
				pass(2 * time.Second)
				free, err := l.AvailablePermits(b.Context())
				require.NoError(b, err)
				assert.EqualValues(b, 10_000, free, "seed %d, taken meanwhile: %t", seed, meanwhile)
			})
		}
	}
}
