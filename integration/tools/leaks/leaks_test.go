package leaks

import (
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestGoroutines_OneLeft_IsCounted(t *testing.T) {
	// The main one and this test's. A test before may have reported its end while its goroutine
	// still was about to.
	const before = 2
	require.Zero(t, Goroutines(before, 10*time.Second))
	stop := make(chan struct{})
	go func() { <-stop }()
	require.Equal(t, 1, Goroutines(before, 10*time.Millisecond))
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	require.Zero(t, Goroutines(before, 10*time.Second), "it has time to end")
}

func TestOfLimiters_BusyCall_IsCounted(t *testing.T) {
	require.Zero(t, OfLimiters(0))
	asked, stop := make(chan struct{}), make(chan struct{})
	// The mapper runs within the limiter's package.
	c := rratelimiter.New(client{}, rratelimiter.WithNameMapper(func(name string) string {
		close(asked)
		<-stop
		return name
	}))
	go c.Limiter("busy")
	<-asked
	require.Equal(t, 1, OfLimiters(0))
	require.Equal(t, 1, ClientsNow())
	require.Equal(t, 1, AboveClients(0, 0))
	require.Zero(t, AboveClients(1, 0))
	close(stop)
	require.Zero(t, OfLimiters(10*time.Second))
}

func TestHeap_KeptBytes_AreCounted(t *testing.T) {
	before := Heap()
	kept := make([]byte, 10<<20)
	require.Greater(t, Heap()-before, int64(9<<20))
	runtime.KeepAlive(kept)
	require.Less(t, Heap()-before, int64(1<<20))
}

// client is a client that only knows its mode.
type client struct{ rueidis.Client }

func (client) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
