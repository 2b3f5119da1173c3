package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
)

// identity is the certificate, the key and the authority of a service, in files.
type identity struct {
	testing.TB
	*certAuthority
	cert, key, ca string
}

func newIdentity(t testing.TB) *identity {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	i := &identity{t, newAuthority(t, "authority"), file("cert.pem"), file("key.pem"), file("ca.pem")}
	require.NoError(t, os.WriteFile(i.ca, i.pem, 0o600))
	i.renew("first")
	return i
}

func (i *identity) renew(name string) {
	pair := i.sign(i, name, time.Hour)
	require.NoError(i, os.WriteFile(i.cert, pair.cert, 0o600))
	require.NoError(i, os.WriteFile(i.key, pair.key, 0o600))
}

func TestServe_TLS_AnswersClientsThatTrustIt(t *testing.T) {
	i := newIdentity(t)
	s := started(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(),
		"--grpc-tls-cert", i.cert, "--grpc-tls-key", i.key)
	s.awaitWith(credentials.NewTLS(i.client(t)))
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	code, _ := s.get("/healthcheck")
	assert.Equal(t, 200, code, "HTTP is without TLS, for probes")

	s.await() // a client without TLS
	_, err = s.ask(t.Context(), "user=ann")
	require.Error(t, err)
	assert.Equal(t, exitDone, s.stop())
}

func TestServe_MutualTLS_RefusesClientsWithoutACertificate(t *testing.T) {
	i := newIdentity(t)
	s := started(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(),
		"--grpc-tls-cert", i.cert, "--grpc-tls-key", i.key, "--grpc-tls-client-ca", i.ca)
	s.awaitWith(credentials.NewTLS(i.client(t, i.sign(t, "envoy", time.Hour))))
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	s.awaitWith(credentials.NewTLS(i.client(t)))
	_, err = s.ask(t.Context(), "user=ann")
	require.Error(t, err)
}

func TestServe_UnixSocket_AnswersAndLeavesNothing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "rrl.sock")
	s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(), "--grpc", "unix:"+socket)
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	info, err := os.Stat(socket)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o660, info.Mode(), "for the service's user and group")

	assert.Equal(t, exitDone, s.stop())
	assert.NoFileExists(t, socket)
}

func TestServe_Prefix_SeparatesServices(t *testing.T) {
	redis := miniredis.RunT(t)
	file := written(t, "edge.yaml", edge) // two a year
	for _, prefix := range []string{"", "staging:", "live:"} {
		s := serve(t, file, "--redis", "redis://"+redis.Addr(), "--prefix", prefix)
		for _, want := range []string{"OK", "OK", "OVER_LIMIT"} {
			answer, err := s.ask(t.Context(), "user=ann")
			require.NoError(t, err)
			assert.Equal(t, want, answer.GetOverallCode().String(), prefix)
		}
		assert.Equal(t, exitDone, s.stop())
	}
	assert.Len(t, redis.Keys(), 3)
	assert.Contains(t, tool("ls", "staging:*", "--redis", "redis://"+redis.Addr()).out, "staging:rls:")
}

func TestServe_MaximumConnectionAge_EndsConnections(t *testing.T) {
	s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(),
		"--grpc-max-connection-age", "100ms")
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.True(t, s.conn.WaitForStateChange(t.Context(), connectivity.Ready), "the connection is ended")
	_, err = s.ask(t.Context(), "user=ann") // on another connection
	require.NoError(t, err)
}
