package differences_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// wire is a TCP proxy of the server that can lose a reply.
type wire struct {
	net.Listener
	word atomic.Pointer[string]
}

// newWire starts a proxy, which ends with the test.
func newWire(t *testing.T) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: listener}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	go func() {
		for {
			client, err := w.Accept()
			if err != nil {
				return
			}
			go w.forward(client)
		}
	}()
	return w
}

// loseNextReply closes the connection at the reply to the next command that contains the word.
func (w *wire) loseNextReply(word string) { w.word.Store(&word) }

func (w *wire) forward(client net.Conn) {
	redis, err := net.Dial("tcp", server.Addr())
	if err != nil {
		_ = client.Close()
		return
	}
	var doomed atomic.Bool
	pump := func(from, to net.Conn, loses func(data []byte) bool) {
		defer from.Close()
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil || loses(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go pump(redis, client, func([]byte) bool { return doomed.Load() })
	pump(client, redis, func(command []byte) bool {
		word := w.word.Load()
		if word != nil && bytes.Contains(command, []byte(*word)) && w.word.CompareAndSwap(word, nil) {
			doomed.Store(true)
		}
		return false
	})
}

// The server grants, and the connection ends before the reply.
func TestTryAcquire_ReplyLost_IsSentOnce(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))

	toJava := newWire(t)
	redisson := oracle.Start(t, redissonVersion, oracle.Single(toJava.Addr().String()),
		oracle.WithTimeout(time.Second)).Limiter(theirs.Name())
	take(t, redisson, 1)
	toJava.loseNextReply(permitsKey(theirs.Name()))
	take(t, redisson, 2)
	require.Equal(t, int64(5), value(t, theirs.Name()), "10 - 1 - 2 - 2")
	require.ElementsMatch(t, []int64{1, 2}, counts(t, permitsKey(theirs.Name())))
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, 8)

	toHere := newWire(t)
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{toHere.Addr().String()},
		ForceSingleClient: true})
	client := rratelimiter.New(redis).Limiter(ours.Name())
	take(t, client, 1)
	toHere.loseNextReply(permitsKey(ours.Name()))
	sent := scripts(t, func() {
		_, err := client.TryAcquire(t.Context(), 2)
		require.Error(t, err)
	})
	require.Equal(t, int64(1), sent, "sent once")
	require.Equal(t, int64(7), value(t, ours.Name()))
	require.ElementsMatch(t, []int64{1, 2}, counts(t, permitsKey(ours.Name())))
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, client, 10)
}
