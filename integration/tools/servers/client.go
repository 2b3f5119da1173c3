package servers

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Connect returns a client that closes when the test ends. The test fails if it cannot connect.
func Connect(t testing.TB, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(option)
	require.NoError(t, err, "connect to %v", option.InitAddress)
	t.Cleanup(client.Close)
	return client
}

// Client returns a client of this server alone, which closes when the test ends.
func (s *Server) Client(t testing.TB) rueidis.Client {
	t.Helper()
	return Connect(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true,
		DisableCache: true})
}

// Keys returns the number of keys of the server.
func (s *Server) Keys(t testing.TB) int64 {
	t.Helper()
	reply, err := s.Do(t.Context(), "DBSIZE")
	require.NoError(t, err)
	keys, err := reply.AsInt64()
	require.NoError(t, err)
	return keys
}

// Expiring returns the number of keys of the server that expire.
func (s *Server) Expiring(t testing.TB) int64 {
	t.Helper()
	found := regexp.MustCompile(`expires=(\d+)`).FindStringSubmatch(s.Text(t, "INFO", "keyspace"))
	require.NotNil(t, found)
	n, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(t, err)
	return n
}

var usedMemory = regexp.MustCompile(`\bused_memory:(\d+)`)

// Memory returns the memory that the server uses, in bytes.
func (s *Server) Memory(t testing.TB) int64 {
	t.Helper()
	info, err := askText(t.Context(), s.Addr(), "INFO", "memory")
	require.NoError(t, err)
	found := usedMemory.FindStringSubmatch(info)
	require.NotNil(t, found, info)
	used, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(t, err, info)
	return used
}

// List runs a command on the server that replies strings.
func (s *Server) List(t testing.TB, args ...string) []string {
	t.Helper()
	message, err := s.Do(t.Context(), args...)
	require.NoError(t, err, "%q on %s", args, s.Addr())
	list, err := message.AsStrSlice()
	require.NoError(t, err, "%q on %s", args, s.Addr())
	return list
}

// Text runs a command on the server that replies a string.
func (s *Server) Text(t testing.TB, args ...string) string {
	t.Helper()
	text, err := askText(t.Context(), s.Addr(), args...)
	require.NoError(t, err, "%q on %s", args, s.Addr())
	return text
}

// Calls returns how often the server has run these commands, for clients and within scripts.
func (s *Server) Calls(t testing.TB, commands ...string) int64 {
	t.Helper()
	return s.commandStats(t, `calls`, commands)
}

// Failed returns how many of Calls have failed, for example an EVALSHA of a script that was not loaded.
func (s *Server) Failed(t testing.TB, commands ...string) int64 {
	t.Helper()
	return s.commandStats(t, `.*failed_calls`, commands)
}

func (s *Server) commandStats(t testing.TB, field string, commands []string) (n int64) {
	t.Helper()
	stats := s.Text(t, "INFO", "commandstats")
	for _, command := range commands {
		found := regexp.MustCompile(`cmdstat_` + command + `:` + field + `=(\d+)`).FindStringSubmatch(stats)
		if found == nil {
			continue
		}
		calls, err := strconv.ParseInt(found[1], 10, 64)
		require.NoError(t, err)
		n += calls
	}
	return n
}

// AwaitMaster waits until a node is the master of a slot.
func (c *Cluster) AwaitMaster(t testing.TB, slot int, want *Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := c.MasterOf(t.Context(), slot)
		return err == nil && now == want
	}, startTimeout, 20*time.Millisecond, "%s becomes the master of slot %d", want.Addr(), slot)
}

// OtherMaster returns a master that is not the given one.
func (c *Cluster) OtherMaster(t testing.TB, not *Server) *Server {
	t.Helper()
	for slot := 0; slot < Slots; slot += Slots / 8 {
		master, err := c.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		if master != not {
			return master
		}
	}
	require.Fail(t, "one master serves all slots")
	return nil
}

// AwaitOtherMaster waits until the sentinels name a master that is not the given one.
func (s *Sentinel) AwaitOtherMaster(t testing.TB, not *Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := s.Master(t.Context())
		return err == nil && now != not
	}, startTimeout, 20*time.Millisecond, "the sentinels choose another master than %s", not.Addr())
}
