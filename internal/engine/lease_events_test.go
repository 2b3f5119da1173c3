package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestFlush_CallsUnderWay_WaitsForThem: a program that closes its connection after Flush loses no
// permits.
func TestFlush_CallsUnderWay_WaitsForThem(t *testing.T) {
	inLease(t, 1_000_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		free := int64(1_000_000)
		for times := 100; times < 200; times++ {
			free -= int64(f.CountGranted(l, times, 30*time.Microsecond))
			require.NoError(t, l.Engine.Flush(t.Context()))
			sent := f.Sent.Load()
			time.Sleep(5 * time.Millisecond)
			require.Equal(t, sent, f.Sent.Load(), "calls that come after it")
			require.Equal(t, free, f.free(l))
		}
	})
}

// TestRelease_SeveralCallersWithLeases_AllIsReturned: of a lease that one caller has revoked, another
// one's Release must not take the unused permits for those that were used. The permits are taken
// before, or meanwhile.
func TestRelease_SeveralCallersWithLeases_AllIsReturned(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		for seed := range uint64(redistest.Deep(1, 4)) {
			withServer(t, func(t *testing.T, f *fixture) {
				l := f.open(Settings{Lease: time.Second}, 10_000, time.Hour)
				f.Latency.Store(int64(time.Duration(seed) * 100 * time.Microsecond))
				if !meanwhile {
					require.Equal(t, 300, f.CountGranted(l, 300, 30*time.Microsecond))
				}
				var callers sync.WaitGroup
				for i := range uint64(30) {
					random := rand.New(rand.NewPCG(seed, i))
					callers.Go(func() {
						if meanwhile {
							require.Equal(t, 10, f.CountGranted(l, 10, time.Duration(random.IntN(100))*time.Microsecond))
						}
						for range 10 {
							time.Sleep(time.Duration(random.IntN(100)) * time.Microsecond)
							require.NoError(t, l.Release(t.Context(), 1))
						}
					})
				}
				callers.Wait()
				require.NoError(t, l.Engine.Flush(t.Context()))
				time.Sleep(2 * time.Second)
				assert.EqualValues(t, 10_000, f.free(l), "seed %d, taken meanwhile: %t", seed, meanwhile)
			})
		}
	}
}

// TestFlush_ManyLeasesOfMovingSlot_EndsAfterAMinute, and not after a minute for each. It returns the
// error of a limiter.
func TestFlush_ManyLeasesOfMovingSlot_EndsAfterAMinute(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		g := New(Settings{Redis: f.Conn, Lease: time.Second})
		for i := range 2 * 16 {
			l := open(g, fmt.Sprint(i), 100, time.Hour)
			for range 40 {
				f.RequireGranted(l, 1)
			}
		}
		f.fail(moving)
		start := time.Now()
		assert.ErrorContains(t, g.Flush(context.Background()), ": context deadline exceeded")
		assert.InDelta(t, time.Minute, time.Since(start), float64(2*time.Second))
		f.fail("")
		require.NoError(t, g.Flush(t.Context()), "nothing is leased any more")
	})
}

// TestLease_OldBurst_IsNoDemand: nor are the permits that the call itself grants.
func TestLease_OldBurst_IsNoDemand(t *testing.T) {
	inLease(t, 10_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		f.leasing(l)
		time.Sleep(25 * time.Millisecond)
		f.RequireGranted(l, 100)
		assert.EqualValues(t, 9600, f.free(l), "nothing is leased")
	})
}

func TestLease_ArrivesLate_IsReturned(t *testing.T) {
	inLease(t, 10_000, 10*time.Second, func(t *testing.T, f *fixture, l *fake) {
		require.Equal(t, 100, f.CountGranted(l, 100, 50*time.Microsecond))
		f.Latency.Store(int64(70 * time.Millisecond))
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() { f.RequireGranted(l, 1) })
		}
		callers.Wait()
		f.Latency.Store(0)
		time.Sleep(200 * time.Millisecond)
		assert.EqualValues(t, 10_000-300, f.free(l))
	})
}
