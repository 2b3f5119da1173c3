package limit

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// A script that stops with an error of Redis has settled nothing: another Settle does it.
func TestTaken_WrongTypeMeanwhile_SettlesLater(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "x", TokenBucket{10, 1, time.Hour})
		for _, actual := range []int64{0, 7} {
			taken := new(Taken)
			takeAll(t, taken, 3, l)
			before := peekAll(t, l)[0].Remaining
			key := l.wire.keys[0]
			do := func(args ...string) {
				require.NoError(t, f.Conn.Do(t.Context(), f.Conn.B().Arbitrary(args...).Build()).Error())
			}
			do("RENAME", key, key+"away")
			do("HSET", key, "a", "b")
			var state *rratelimiter.StateError
			require.ErrorAs(t, taken.Settle(t.Context(), actual), &state)
			do("RENAME", key+"away", key)
			require.NoError(t, taken.Settle(t.Context()))
			assert.EqualValues(t, before+3-actual, peekAll(t, l)[0].Remaining, "actual %d", actual)
			require.NoError(t, l.Reset(t.Context()))
		}
	})
}

// heldConn delivers no reply while it is held.
type heldConn struct {
	net.Conn
	held *atomic.Bool
}

func (c heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.held.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

// A Take that is answered after a failed Settle is released by the next one.
func TestTaken_TakeUnderWayWhileSettleFails_IsReleased(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		held := new(atomic.Bool)
		conn, err := memredis.ConnectThrough(f.Redis, func(conn net.Conn) net.Conn { return heldConn{conn, held} })
		require.NoError(t, err)
		defer conn.Close()
		client := rratelimiter.New(conn)
		a, b := New(client, "a", FixedWindow{10, time.Hour, false}), New(client, "b", FixedWindow{10, time.Hour, false})
		taken := new(Taken)
		takeAll(t, taken, 5, a)
		held.Store(true)
		var all sync.WaitGroup
		all.Go(func() { takeAll(t, taken, 4, b) })
		time.Sleep(time.Millisecond)
		require.Error(t, taken.Settle(t.Context(), 2))
		held.Store(false)
		all.Wait()
		require.NoError(t, taken.Settle(t.Context()))
		assert.EqualValues(t, 8, peekAll(t, a)[0].Remaining)
		assert.EqualValues(t, 10, peekAll(t, b)[0].Remaining)
	})
}
