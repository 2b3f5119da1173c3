package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const shortLease = 10 * time.Millisecond

// inLease runs a test with leases of 10 ms and calls of half a millisecond. It requires that no
// state is left.
func inLease(t *testing.T, limit int64, every time.Duration, test func(t *testing.T, f *fixture, l *fake)) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Lease: shortLease}, limit, every)
		f.Latency.Store(int64(500 * time.Microsecond))
		test(t, f, l)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		f.idle(l)
	})
}

// leasing makes an engine lease: callers take 300 permits in 9 ms.
func (f *fixture) leasing(l *fake) {
	f.Helper()
	require.Equal(f, 300, f.CountGranted(l, 300, 30*time.Microsecond))
}

func TestLease_ManyCalls_NeedNoRedis(t *testing.T) {
	inLease(t, 1_000_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		require.Equal(t, 1000, f.CountGranted(l, 1000, 20*time.Microsecond))
		before, start := f.Scripts.Load(), time.Now()
		require.Equal(t, 5000, f.CountGranted(l, 5000, 20*time.Microsecond))
		assert.Equal(t, 100*time.Millisecond, time.Since(start), "no caller waits for Redis")
		assert.LessOrEqual(t, f.Scripts.Load()-before, int64(30), "calls in a tenth of a second")

		result, err := l.Take(t.Context(), 1)
		require.NoError(t, err)
		assert.True(t, result.Allowed)
		assert.Equal(t, int64(1_000_000), result.Limit)
		assert.InDelta(t, 1_000_000-6001, result.Remaining, 200, "permits that are being released are not counted")
		assert.InDelta(t, 10*time.Second+shortLease, result.ResetAfter, float64(shortLease))
		time.Sleep(50 * time.Millisecond)
		assert.EqualValues(t, 1_000_000-6001, f.free(l))
	})
}

// TestLease_LargeRequest_UsesWhatIsLeasedAndFree, although another client has released permits: the
// reply that denies it reports the free permits, not the lease.
func TestLease_LargeRequest_UsesWhatIsLeasedAndFree(t *testing.T) {
	for _, way := range ways {
		for kind, maxAge := range map[string]time.Duration{"": 0, ", denials cached": time.Hour} {
			runWithServer(t, way.name+kind, func(t *testing.T, f *fixture) {
				l := f.open(Settings{Lease: shortLease, Denials: maxAge}, 1000, 10*time.Second)
				other := open(New(Settings{Redis: f.QuickConn()}), "limiter", 1000, 10*time.Second)
				f.RequireGranted(other, 400)
				f.Latency.Store(int64(500 * time.Microsecond))
				f.leasing(l)
				require.Less(t, f.free(l), int64(300), "permits are leased")
				require.NoError(t, other.Release(t.Context(), 400))
				began := time.Now()
				require.NoError(t, way.call(t.Context(), l, 700))
				assert.Less(t, time.Since(began), 5*time.Millisecond)
				time.Sleep(20 * time.Millisecond)
				assert.Zero(t, f.free(l))
			})
		}
	}
}

func TestLease_RequestExceedsBoth_LeaseStays(t *testing.T) {
	inLease(t, 1000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		f.leasing(l)
		time.Sleep(2 * time.Millisecond) // the next lease may be on its way
		before := f.free(l)
		f.RequireDenied(l, 701)
		assert.Equal(t, before, f.free(l))
	})
}

// TestLease_Remaining_CountsLeasedPermits: of all leases, in the call that fetches one, and what
// Redis grants since.
func TestLease_Remaining_CountsLeasedPermits(t *testing.T) {
	for name, permits := range map[string][]int64{
		"one by one": slices.Repeat([]int64{1}, 2000), "more than is leased": {1, 20, 20, 5, 820, 1, 1},
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := f.open(Settings{Lease: 100 * time.Millisecond}, 100_000, time.Hour)
			taken := int64(0)
			for _, n := range permits {
				time.Sleep(20 * time.Microsecond)
				result, err := l.Take(t.Context(), n)
				require.NoError(t, err)
				taken += n
				require.Equal(t, 100_000-taken, result.Remaining, "%d are taken", taken)
			}
		})
	}
}
