package servers

import (
	"testing"

	"github.com/redis/rueidis"
)

// Connect returns a client that closes when the test ends. The test fails if it cannot connect.
func Connect(t testing.TB, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatalf("servers: connect to %v: %v", option.InitAddress, err)
	}
	t.Cleanup(client.Close)
	return client
}

// Client returns a client of this server alone, which closes when the test ends.
func (s *Server) Client(t testing.TB) rueidis.Client {
	t.Helper()
	return Connect(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
}
