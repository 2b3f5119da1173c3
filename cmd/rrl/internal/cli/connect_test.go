package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/testcert"
)

// TestConnect_EnvironmentAndPasswordFile_AreUsed: and the number of a database.
func TestConnect_EnvironmentAndPasswordFile_AreUsed(t *testing.T) {
	s := startRedis(t)
	s.run("ACL SETUSER alice on >hidden ~* +@all")
	t.Setenv("REDIS_URL", "redis://alice@"+s.addr+"/2")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("hidden\n"), 0o600))
	r := tool("set", "api", "1/s", "--password-file", file)
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, tool("ls", "--password-file", file).out, "api")
	require.Equal(t, "no limiters\n", s.on("ls"), "--redis goes before REDIS_URL, and database 0 has none")
	require.Contains(t, tool("ls", "--redis", s.url()+"/2").out, "api")
}

// TestConnect_Sentinel_FindsTheMaster: a URL of a sentinel itself is an error.
func TestConnect_Sentinel_FindsTheMaster(t *testing.T) {
	s := startRedis(t)
	s.on("set", "api", "1/s")
	host, port, _ := net.SplitHostPort(s.addr)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "sentinel monitor main %s %s 1\n", host, port), 0o600))
	sentinel := startRedis(t, "sentinel", config)
	require.Contains(t, tool("ls", "--redis", sentinel.url()+"?master_set=main").out, "api")
	require.Equal(t, exitDone, tool("try", "api", "--redis", sentinel.url()+"?master_set=main").code)
	fails(t, []string{"ls", "--redis", sentinel.url()}, "is a Sentinel and has no limiters")
	fails(t, []string{"ls", "--redis", sentinel.url() + "?master_set=other"},
		"master_set=other", "does not know this master", "SENTINEL MASTERS")

	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hidden\n"), 0o600))
	sentinel.run("ACL SETUSER default resetpass >hidden")
	behind := []string{"ls", "--redis", sentinel.url() + "?master_set=main"}
	for _, args := range [][]string{behind, append(behind[:3:3], "--password-file", secret)} {
		fails(t, args, "requires a password", "--sentinel-password-file")
	}
	require.Contains(t, tool(append(behind, "--sentinel-password-file", secret)...).out, "api")
}

// TestConnect_TLS_ChecksCertificates: with a private authority and a client's certificate.
func TestConnect_TLS_ChecksCertificates(t *testing.T) {
	authority := testcert.NewAuthority(t, "authority")
	pair := authority.Sign(t, "rrl", time.Hour)
	ca := written(t, "ca.pem", string(authority.PEM))
	cert, key := written(t, "cert.pem", string(pair.Cert)), written(t, "key.pem", string(pair.Key))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	s := startRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca)
	s.on("set", "api", "1/s")

	all := []string{"ls", "--redis", "rediss://" + address, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key}
	r := tool(all...)
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "api")
	fails(t, []string{"ls", "--redis", "rediss://" + address, "--tls-cert", cert, "--tls-key", key}, "--tls-ca")
	fails(t, all[:5], address)
	fails(t, []string{"ls", "--redis", "redis://" + address, "--timeout", "2s"}, address)
}
