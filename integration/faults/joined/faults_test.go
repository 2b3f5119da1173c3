package joined_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// The server hangs for longer than any caller waits, and resumes. It replies to calls whose callers
// have gone, and their permits are released.
func TestJoin_ServerPaused_PermitsAreReleased(t *testing.T) {
	server := servers.Single(t)
	l := start(t, single(server.Addr()))
	time.Sleep(500 * time.Millisecond)
	require.NoError(t, server.Pause())
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, server.Resume())
	l.awaitGrants(time.Now())
	time.Sleep(500 * time.Millisecond)
	l.exactly()
}

// The script cache is emptied repeatedly, and no call fails.
func TestJoin_ScriptFlush_HasNoEffect(t *testing.T) {
	server := servers.Single(t)
	l := start(t, single(server.Addr()))
	for range 50 {
		_, err := server.Do(t.Context(), "SCRIPT", "FLUSH")
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
	}
	l.awaitGrants(time.Now())
	l.exactly()
}

// The server is killed while it writes every change to its disk before the reply, and restarts. It
// keeps every grant that it has replied.
func TestJoin_ServerKilled_PartsAgree(t *testing.T) {
	server := servers.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	l := start(t, single(server.Addr()))
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, server.Kill())
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, server.Restart())
		l.awaitGrants(time.Now())
	}
	time.Sleep(500 * time.Millisecond)
	l.finish(loss{}, "cut", "refused", "LOADING")
	require.Positive(t, l.keeping.book.Errors()["refused"])
}

// Every connection is closed repeatedly.
func TestJoin_ConnectionsCut_PartsAgree(t *testing.T) {
	server := servers.Single(t)
	l := start(t, single(server.Addr()))
	for range 15 {
		_, err := server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
	}
	l.awaitGrants(time.Now())
	l.finish(loss{}, "cut")
	require.Positive(t, l.keeping.book.Errors()["cut"])
}

// Calls take effect and their replies are lost with their connections, repeatedly.
func TestJoin_RepliesLost_PartsAgree(t *testing.T) {
	server := servers.Single(t)
	disturbed := proxy.Start(t, server.Addr())
	l := start(t, single(disturbed.Listen), server.Addr())
	for range 15 {
		restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
		time.Sleep(30 * time.Millisecond)
		restore() // closes the connections
		time.Sleep(100 * time.Millisecond)
	}
	l.awaitGrants(time.Now())
	taken, granted, _ := l.finish(loss{}, "cut")
	require.Greater(t, taken["quota"], granted, "no reply was lost")
}
