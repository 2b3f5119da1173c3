// Package clocked starts a server with a Client on a settable clock. The clock of the server itself
// runs on, and expires keys: Persist keeps those that only the Client's clock is to end.
package clocked

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Server is a server and a Client whose clock shows Now.
type Server struct {
	Redis  rueidis.Client
	Client *rratelimiter.Client
	Now    time.Time
}

// Start starts a server, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Redis: servers.Single(t).Client(t), Now: time.UnixMicro(1_763_740_123_456_789)}
	s.Client = rratelimiter.New(s.Redis, rratelimiter.WithClock(s.Clock))
	return s
}

// Clock returns Now.
func (s *Server) Clock() time.Time { return s.Now }

// Persist removes the expiry of keys. A state that is nearly free has a second or two to live, which a loaded
// machine may need for the next call.
func (s *Server) Persist(t testing.TB, keys ...string) {
	t.Helper()
	var all rueidis.Commands
	for _, key := range keys {
		all = append(all, s.Redis.B().Persist().Key(key).Build())
	}
	for _, result := range s.Redis.DoMulti(t.Context(), all...) {
		require.NoError(t, result.Error())
	}
}
