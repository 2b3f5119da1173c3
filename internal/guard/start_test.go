package guard

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// unreached is a client that does not know its node until it reaches Redis.
type unreached struct {
	rueidis.Client
	reached atomic.Bool
}

func (u *unreached) Nodes() map[string]rueidis.Client {
	if !u.reached.Load() {
		return nil
	}
	return u.Client.Nodes()
}

// The node is unknown until Redis is reached. A gauge by node returns to 0.
func TestGuard_StartWithoutRedis_ReportsOneNode(t *testing.T) {
	server := miniredis.RunT(t)
	address := server.Addr()
	server.Close()
	conn, err := rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true,
		DisableCache: true})
	require.NoError(t, err)
	redis := &unreached{Client: conn}
	t.Cleanup(redis.Close)
	changes := new(nodeChanges)
	limiter := limit.New(rratelimiter.New(redis), "a", limit.FixedWindow{Permits: 5, Interval: time.Hour})
	g := New(limit.Open, deadline, changes.changed)
	require.Equal(t, limit.FailedOpen, g.Ask(t.Context(), Request{Limiter: limiter, Permits: 1}).Result)
	redis.reached.Store(true)
	require.NoError(t, server.StartAddr(address))
	require.Eventually(t, func() bool {
		changes.mu.Lock()
		defer changes.mu.Unlock()
		return len(changes.text) == 2
	}, 10*time.Second, deadline)
	assert.Equal(t, []string{" false", " true"}, changes.text)
}
