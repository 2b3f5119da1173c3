package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// Away returns a Redis in memory that has an address and does not listen yet. Come lets it listen there. On Linux no
// connection of another test gets the port meanwhile, since these are on 127.0.0.1.
func Away(t testing.TB) (server *miniredis.Miniredis, address string, come func()) {
	server = miniredis.NewMiniRedis()
	if server.StartAddr("127.7.7.7:0") != nil {
		require.NoError(t, server.Start())
	}
	address = server.Addr()
	server.Close()
	t.Cleanup(server.Close)
	return server, address, func() { require.NoError(t, server.StartAddr(address)) }
}
