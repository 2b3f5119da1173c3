package rratelimiter

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// runsArg is the index of the requests in the arguments of the acquire script.
const runsArg = 7

// TestRefund_GrantHasExpired_ReturnsNothing: a server hung for longer than the interval. The grant
// of a caller that left has expired when its refund arrives, and the permits belong to others.
func TestRefund_GrantHasExpired_ReturnsNothing(t *testing.T) {
	for _, ask := range asks {
		runWithRedis(t, ask.name, func(t *testing.T, f *fixture) {
			slow := f.limiter(Rate{Permits: 10, Interval: time.Second})
			other := New(f.QuickConn()).Limiter("limiter")
			f.Latency.Store(int64(3 * time.Second))
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, ask.call(ctx, slow, 10), context.DeadlineExceeded)

			// The slow call is carried out after 3 s, as of 0 s; what gives its permits back
			// comes seconds later.
			time.Sleep(4 * time.Second)
			var last time.Time
			for range 100 {
				ok, err := other.TryAcquire(t.Context(), 10)
				require.NoError(t, err)
				if ok {
					require.GreaterOrEqual(t, time.Since(last), time.Second, "since the rate was granted before")
					last = time.Now()
				}
				time.Sleep(100 * time.Millisecond)
			}
			require.False(t, last.IsZero())
		})
	}
}

// TestRefund_SharedGrant_RestStaysInTheWindow: permits of callers that left return once, those of
// the others when they expire.
func TestRefund_SharedGrant_RestStaysInTheWindow(t *testing.T) {
	for _, ask := range asks {
		runWithRedis(t, ask.name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 320, Interval: 10 * time.Second})
			for range 300 { // more than a page, so that only a grant that is named is found
				f.RequireGranted(l, 1)
			}
			// The caller of 3 goes when its call, which carries others too, is at the server.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
				_, given := redistest.ScriptCall(command, args)
				if len(given) > runsArg && strings.Contains(given[runsArg], "3*1") {
					assert.Contains(t, given[runsArg], " ")
					cancel()
					time.Sleep(10 * time.Millisecond)
				}
				return false
			})
			f.Latency.Store(int64(100 * time.Millisecond))
			wants := []int64{1, 1, 3, 4, 5, 50}
			_, errs := redistest.Crowd(len(wants), func(i int) (any, error) {
				switch {
				case i == 2:
					return nil, ask.call(ctx, l, wants[i])
				case i == 5 && ask.waits:
					return nil, nil
				}
				return nil, ask.call(t.Context(), l, wants[i])
			})
			for i, err := range errs {
				if i == 2 {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
				}
			}
			f.Latency.Store(0)
			time.Sleep(time.Second)
			held := int64(-300)
			members, err := f.Redis.ZMembers("{limiter}:permits")
			require.NoError(t, err)
			for _, m := range members {
				permits := int64(m[17]) | int64(m[18])<<8 | int64(m[19])<<16 | int64(m[20])<<24
				assert.Positive(t, permits)
				held += permits
			}
			assert.EqualValues(t, 11, held, "permits in the window")
			f.RequireAvailable(l, 9)
			f.RequireGranted(l, 9)
			f.RequireDenied(l, 1)
			time.Sleep(5 * time.Second)
			f.RequireDenied(l, 1)
			time.Sleep(5 * time.Second)
			f.RequireGranted(l, 320)
		})
	}
}

// TestRefund_WholeGrant_LeavesNothing: up to the most permits of a member.
func TestRefund_WholeGrant_LeavesNothing(t *testing.T) {
	for _, permits := range []int64{1, math.MaxUint32 - 1, math.MaxUint32} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: int64(1 << 53), Interval: time.Hour})
			f.Latency.Store(int64(time.Second))
			before := f.Scripts.Load()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			_, err := l.TryAcquire(ctx, permits)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Minute)
			f.Latency.Store(0)
			assert.EqualValues(t, 2, f.Scripts.Load()-before)
			f.RequireAvailable(l, int64(1<<53))
			assert.False(t, f.Redis.Exists("{limiter}:permits"))
		})
	}
}

// TestExplain_ServerHangs_EndsAfterTheTimeout: the types of all keys are read in one call.
func TestExplain_ServerHangs_EndsAfterTheTimeout(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		hang := make(chan struct{})
		f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			switch command {
			case "EVALSHA":
				peer.WriteError("WRONGTYPE Operation against a key holding the wrong kind of value")
				return true
			case "TYPE":
				<-hang
				return true
			}
			return false
		})
		start := time.Now()
		assert.Error(t, redistest.Err(l.TryAcquire(context.Background(), 1)))
		assert.Less(t, time.Since(start), 11*time.Second)
		close(hang)
		f.Redis.Server().SetPreHook(nil)
		time.Sleep(time.Minute)
	})
}
