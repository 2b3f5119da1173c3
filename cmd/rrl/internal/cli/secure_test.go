package cli

import (
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
	*certAuthority
	cert, key, ca string
}

func newIdentity(t testing.TB) identity {
	a := newAuthority(t, "authority")
	pair := a.sign(t, "first", time.Hour)
	return identity{a, written(t, "cert.pem", string(pair.cert)), written(t, "key.pem", string(pair.key)),
		written(t, "ca.pem", string(a.pem))}
}

func TestServe_TLS_AnswersClientsThatItTrusts(t *testing.T) {
	i := newIdentity(t)
	for _, mutual := range []bool{false, true} {
		args := []string{written(t, "edge.yaml", edge), "--redis", "redis://" + miniredis.RunT(t).Addr(),
			"--grpc-tls-cert", i.cert, "--grpc-tls-key", i.key}
		if mutual {
			args = append(args, "--grpc-tls-client-ca", i.ca)
		}
		s := started(t, args...)
		s.awaitWith(credentials.NewTLS(i.client(t, i.sign(t, "envoy", time.Hour))))
		_, err := s.ask(t.Context(), "user=ann")
		require.NoError(t, err)
		code, _ := s.get("/healthcheck")
		assert.Equal(t, 200, code, "HTTP is without TLS, for probes")

		s.awaitWith(credentials.NewTLS(i.client(t)))
		_, err = s.ask(t.Context(), "user=ann")
		require.Equal(t, mutual, err != nil, "a client without a certificate: %v", err)
		s.await()
		_, err = s.ask(t.Context(), "user=ann")
		require.Error(t, err, "a client without TLS")
		assert.Equal(t, exitDone, s.stop())
	}
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
