package limit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestAcquire_ClockOfRedisGoesBack_PaceStays: as that of a replica that becomes the master. No permit is held for a
// Client that has ended, which is expected in a future that no call is due in.
func TestAcquire_ClockOfRedisGoesBack_PaceStays(t *testing.T) {
	t.Parallel()
	tests := map[string]shareTest{"InFlight": limited(36, InFlight{Permits: 4, Lease: time.Minute})}
	for _, name := range []string{"TokenBucket", "FixedWindow", "Redisson's layout"} {
		tests[name] = daily[name]
	}
	for name, test := range tests {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			const d, back = 12 * time.Second, time.Minute
			var s site
			if name == "InFlight" {
				s.hold = 100 * time.Millisecond
			}
			changes := time.Now().Add(2 * time.Second)
			ctx, end := context.WithDeadline(t.Context(), changes)
			defer end()
			go func() {
				for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
					if now := time.Now(); now.After(changes) {
						f.Redis.SetTime(now.Add(-back))
					}
				}
			}()
			leaves := test.open(rratelimiter.New(f.Conn))
			for range 30 {
				go func() {
					var taken Taken
					for taken.Acquire(ctx, 1, leaves) == nil {
						time.Sleep(s.hold)
						_ = taken.Settle(context.Background(), 1)
					}
				}()
			}
			got := shares(t, f, d, test.open, s, s)
			assert.GreaterOrEqual(t, float64(got.sum()), 0.7*test.rate*d.Seconds(), "%s: %v", name, got.permits)
		})
	}
}

// TestAcquire_ClockIsYearsOff_QuotaHolds: calls that wait and calls that do not have one clock. It is years behind that
// of Redis.
func TestAcquire_ClockIsYearsOff_QuotaHolds(t *testing.T) {
	for _, name := range []string{"TokenBucket", "SlidingLog", "Redisson's layout"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			clock := rratelimiter.WithClock(func() time.Time { return time.Now().AddDate(-3, 0, 0) })
			l := daily[name].open(rratelimiter.New(f.Conn, clock))
			granted := 0
			for granted < 100 && redistest.Result(t, l.TryAcquire, 1) {
				granted++
			}
			ctx, end := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer end()
			assert.ErrorIs(t, l.Acquire(ctx, 1), context.DeadlineExceeded, "%s: after %d", name, granted)
		})
	}
}
