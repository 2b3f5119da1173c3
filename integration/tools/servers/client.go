package servers

import (
	"regexp"
	"strconv"
	"testing"

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
