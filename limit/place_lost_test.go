package limit

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// around is a client whose next call is made by a function, if that is set.
type around struct {
	rueidis.Client
	next atomic.Pointer[func(send func() rueidis.RedisResult) rueidis.RedisResult]
}

func (a *around) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	send := func() rueidis.RedisResult { return a.Client.Do(ctx, c) }
	if next := a.next.Swap(nil); next != nil {
		return (*next)(send)
	}
	return send()
}

func (a *around) set(next func(send func() rueidis.RedisResult) rueidis.RedisResult) {
	a.next.Store(&next)
}

// TestInFlight_CallPanics_PlaceReturns: a hook of rueidis panics after the reply. The clock panics before the call, which
// has taken nothing then.
func TestInFlight_CallPanics_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		policy := InFlight{2, time.Hour, true}
		conn := &around{Client: f.Conn}
		var panics atomic.Int64 // the reading of the clock that panics
		own := New(rratelimiter.New(conn, rratelimiter.WithClock(func() time.Time {
			if panics.Add(-1) == 0 {
				panic("a clock")
			}
			return time.Now()
		})), "name", policy)
		takeAll(t, new(Taken), 1, own) // Redis has the script
		for _, reading := range []int64{0, 1} {
			if panics.Store(reading); reading == 0 {
				conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
					send()
					panic("a hook")
				})
			}
			var taken Taken
			require.Panics(t, func() { _, _ = taken.Take(context.Background(), 1, own) }, reading)
			require.NoError(t, taken.Settle(t.Context()))
			time.Sleep(time.Second)
			assert.Equal(t, []int64{1}, remainingOf(t, New(f.client, "name", policy)), reading)
		}
	})
}

// TestInFlight_ConnectionEnds_PlaceReturns, whatever the error: that of a ping which is not answered is a bare timeout.
func TestInFlight_ConnectionEnds_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		conn := &around{Client: f.Conn}
		l := New(rratelimiter.New(conn), "name", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, l) // Redis has the script
		for _, err := range []error{os.ErrDeadlineExceeded, io.ErrUnexpectedEOF, errors.New("no credentials")} {
			conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
				send()
				return rueidis.NewErrorResult(err)
			})
			require.ErrorIs(t, redistest.Err(new(Taken).Take(t.Context(), 1, l)), err)
			time.Sleep(time.Second)
			assert.Equal(t, []int64{1}, remainingOf(t, l), err)
		}
	})
}

// TestInFlight_ReturnOvertakesItsGrant_PlaceReturns: the server runs the return before the call, which is on another
// connection.
func TestInFlight_ReturnOvertakesItsGrant_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		conn := &around{Client: f.Conn}
		l := New(rratelimiter.New(conn), "name", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, l) // Redis has the script
		conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
			time.AfterFunc(10*time.Second, func() { send() })
			return rueidis.NewErrorResult(io.EOF)
		})
		require.Error(t, redistest.Err(new(Taken).Take(t.Context(), 1, l)))
		time.Sleep(10*time.Second + time.Millisecond)
		require.Equal(t, []int64{0}, remainingOf(t, l))
		time.Sleep(10 * time.Second)
		assert.Equal(t, []int64{1}, remainingOf(t, l))
	})
}

// TestInFlight_InitialRateIsRefused_PlaceReturns: the user may not set the rate, and another program does before the
// call, which takes a place then. Its caller gets the refusal.
func TestInFlight_InitialRateIsRefused_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 9, Interval: time.Hour})
		shared, places := f.client.Limiter("{x}:shared", rate), New(f.client, "{x}:places", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, shared, places) // Redis has the script
		synctest.Wait()                           // and drift is counted
		f.Redis.Del("{x}:shared")
		refused := false
		f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if command != "EVAL" || refused { // the first one sets the rate
				return false
			}
			refused = true
			f.Redis.HSet("{x}:shared", "rate", "9", "interval", "3600000", "type", "0")
			peer.WriteError("NOPERM this user has no permissions")
			return true
		})
		require.ErrorContains(t, redistest.Err(new(Taken).Take(t.Context(), 1, shared, places)), "NOPERM")
		time.Sleep(time.Second)
		assert.Equal(t, []int64{1}, remainingOf(t, places))
	})
}
