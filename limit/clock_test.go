package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestClock_Before1970_TimeStandsStill: such a clock writes states that other calls can read.
func TestClock_Before1970_TimeStandsStill(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(1969, time.July, 20, 20, 17, 40, 0, time.UTC)} {
		for _, p := range everyPolicy {
			f := newClocked(t)
			f.back = true
			f.setClock(at.UnixMicro())
			l := New(f.client, "name", p)
			for _, want := range []int64{8, 6} {
				d := redistest.Result(t, l.Take, 2)
				assert.True(t, d.Allowed, "%T", p)
				assert.Equal(t, want, d.Remaining, "%T", p)
				f.advance(24 * time.Hour)
			}
			if _, held := p.(InFlight); !held {
				require.NoError(t, l.Release(t.Context(), 1), "%T", p)
			}
			f.setClock(begin)
			if isWindow(p) { // the clock of Redis ends it
				f.redis.FastForward(366 * 24 * time.Hour)
			}
			assert.True(t, redistest.Result(t, l.Take, 10).Allowed, "%T", p)
		}
	}
}

func TestTokenBucket_StateOfAClockAhead_LivesUntilItIsFull(t *testing.T) {
	f := newClocked(t)
	f.back = true
	l := New(f.client, "name", TokenBucket{10, 1, time.Second})
	f.take(l, 4)
	f.advance(-time.Hour)
	f.take(l, 1)
	assert.Equal(t, time.Hour+5*time.Second+fullFor, f.redis.TTL(l.protocol.keys[0]))
}

// TestTryAcquire_CallArrivesLate_PermitsReturnEarlier: as if the clock of its Client was behind. By the clock of Redis
// they stay taken for an interval.
func TestTryAcquire_CallArrivesLate_PermitsReturnEarlier(t *testing.T) {
	const late = 900 * time.Millisecond // and the reply too, so that it arrives 1.8 s after the call was sent
	for _, ofServer := range []bool{false, true} {
		for _, p := range []Policy{SlidingLog{10, time.Second}, SlidingWindow{10, time.Second, 1000},
			FixedWindow{10, time.Second, false}} {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				var opts []rratelimiter.Option
				if ofServer {
					opts = append(opts, rratelimiter.WithServerTime())
				}
				f.RequireGranted(New(rratelimiter.New(far{f.Conn, late}, opts...), "name", p), 10)
				near := New(rratelimiter.New(f.Conn, opts...), "name", p)
				free := redistest.Result(t, near.Take, 1).Allowed
				assert.Equal(t, !ofServer && !isWindow(p), free, "%+v", p)
			})
		}
	}
}
