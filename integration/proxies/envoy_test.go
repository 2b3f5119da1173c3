package proxies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// envoyConf is examples/deploy/envoy.yaml, which docs/envoy.md shows, with addresses of this machine.
func envoyConf(t *testing.T, listen, upstream, service int, deny bool) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/deploy/envoy.yaml")
	require.NoError(t, err)
	conf := string(text)
	for was, is := range map[string]string{
		"address: 0.0.0.0, port_value: 10000": fmt.Sprintf("address: 127.0.0.1, port_value: %d", listen),
		"address: program, port_value: 80":    fmt.Sprintf("address: 127.0.0.1, port_value: %d", upstream),
		"address: limits, port_value: 8081":   fmt.Sprintf("address: 127.0.0.1, port_value: %d", service),
		"failure_mode_deny: false":            fmt.Sprintf("failure_mode_deny: %v", deny),
		"timeout: 0.15s":                      "timeout: 1s", // for a busy machine
	} {
		require.Equal(t, 1, strings.Count(conf, was), was)
		conf = strings.Replace(conf, was, is, 1)
	}
	return conf
}

// envoy is a binary of Envoy: what ENVOY names, or fetched.
func envoy(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("ENVOY"); named != "" {
		return named
	}
	out, err := exec.Command("sh", "envoy.sh").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.NoError(t, err, "no Envoy: %s", out)
	return lines[len(lines)-1]
}

// Envoy asks the service, shows what is left, and does as failure_mode_deny says while Redis is away.
func TestEnvoy(t *testing.T) {
	binary := envoy(t)
	for _, deny := range []bool{false, true} {
		t.Run(fmt.Sprintf("failure_mode_deny %v", deny), func(t *testing.T) {
			s := start(t)
			listen := freePort(t)
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			_, upstream, _ := strings.Cut(strings.TrimPrefix(s.upstream.URL, "http://"), ":")
			upstreamPort, err := strconv.Atoi(upstream)
			require.NoError(t, err)
			text := envoyConf(t, listen, upstreamPort, s.grpc, deny)
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			at := "http://" + port(listen)
			proxy(t, at+"/ready", binary, "-c", file, "--base-id", fmt.Sprint(listen), "--concurrency", "1", "-l", "warn")
			before := s.served.Load()

			// Waiting for Envoy has taken one of the five already.
			var got []string
			for _, path := range []string{"/login", "/login", "/", "/login", "/login", "/"} {
				got = append(got, path+" "+get(t, at+path, "X-RateLimit-Remaining"))
			}
			assert.Equal(t, []string{"/login 200 left 2", "/login 200 left 1", "/ 200 left 1", "/login 200 left 0", "/login 429 left 0", "/ 429 left 0"}, got)
			assert.EqualValues(t, 4, s.served.Load()-before)

			require.NoError(t, s.redis.Kill())
			want := "200"
			if deny {
				want = "500"
			}
			assert.Equal(t, want, get(t, at+"/", "X-RateLimit-Remaining"))
		})
	}
}
