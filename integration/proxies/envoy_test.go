package proxies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// envoyConf is docs/envoy.md's, with ports.
const envoyConf = `
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: LISTEN}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: edge
                use_remote_address: false
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {prefix: /}
                          route:
                            cluster: program
                            rate_limits:
                              - actions:
                                  - request_headers: {header_name: ":path", descriptor_key: path}
                                  - request_headers: {header_name: x-client, descriptor_key: client}
                              - actions:
                                  - request_headers: {header_name: x-client, descriptor_key: client}
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: edge
                      timeout: 1s
                      failure_mode_deny: DENY
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: {envoy_grpc: {cluster_name: limits}}
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
    - name: program
      load_assignment:
        cluster_name: program
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: UPSTREAM}}}}]}]
    - name: limits
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: limits
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: SERVICE}}}}]}]
`

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
			text := strings.NewReplacer("LISTEN", fmt.Sprint(listen), "UPSTREAM", upstream, "SERVICE", fmt.Sprint(s.grpc), "DENY", fmt.Sprint(deny), "x-client", "user-agent").Replace(envoyConf)
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
