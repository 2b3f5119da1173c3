package redistest

import (
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// Unused returns an address that nothing listens on. On Linux no connection of another test gets the port, since
// these are on 127.0.0.1.
func Unused(t testing.TB) (address string) {
	listener, err := net.Listen("tcp", "127.7.7.7:0")
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// Away returns a Redis in memory that has an address and does not listen yet. Come lets it listen there.
func Away(t testing.TB) (server *miniredis.Miniredis, address string, come func()) {
	server, address = miniredis.NewMiniRedis(), Unused(t)
	t.Cleanup(server.Close)
	return server, address, func() { require.NoError(t, server.StartAddr(address)) }
}
