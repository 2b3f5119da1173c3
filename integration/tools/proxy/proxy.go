// Package proxy starts TCP proxies that disturb the connections to a server.
package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Proxy forwards connections to a server.
type Proxy struct{ *toxiproxy.Proxy }

// Start starts a proxy of the server at an address. It stops with the test.
func Start(t testing.TB, addr string) Proxy {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(api, t.Name(), "127.0.0.1:0", addr)
	require.NoError(t, p.Start())
	t.Cleanup(p.Stop)
	return Proxy{p}
}

// Disturb adds a toxic with its attributes in JSON, "upstream" to the server or "downstream" from
// it. A removed toxic that swallows data closes the connections.
func (p Proxy) Disturb(t testing.TB, toxic, stream, attributes string) (remove func()) {
	t.Helper()
	added, err := p.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name": "%s %s", "type": %q, "stream": %q, "attributes": {%s}}`, toxic, stream, toxic, stream, attributes)))
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, p.Toxics.RemoveToxic(context.Background(), added.Name))
	}
}
