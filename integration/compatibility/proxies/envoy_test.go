package proxies

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// envoyConf is examples/deploy/envoy.yaml, which docs/envoy.md shows, with addresses of this
// machine.
func envoyConf(t *testing.T, listen, upstream, service int) string {
	t.Helper()
	text := golden.Text(t, "../../../examples/deploy/envoy.yaml")
	conf := text
	for was, is := range map[string]string{
		"address: 0.0.0.0, port_value: 10000": fmt.Sprintf("address: 127.0.0.1, port_value: %d", listen),
		"address: program, port_value: 80":    fmt.Sprintf("address: 127.0.0.1, port_value: %d", upstream),
		"address: limits, port_value: 8081":   fmt.Sprintf("address: 127.0.0.1, port_value: %d", service),
		"failure_mode_deny: false":            "failure_mode_deny: true",
		"timeout: 0.6s":                       "timeout: 1s", // for a busy machine
	} {
		require.Equal(t, 1, strings.Count(conf, was), was)
		conf = strings.Replace(conf, was, is, 1)
	}
	return conf
}

// envoy returns a binary of Envoy: that of the variable ENVOY, or a download.
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

// Envoy calls the service and shows the remaining permits. Without Redis, failure_mode_deny decides.
func TestEnvoy_RateLimitService_LimitsRequests(t *testing.T) {
	for _, deny := range []bool{false, true} {
		t.Run(fmt.Sprintf("failure_mode_deny %v", deny), func(t *testing.T) {
			s := start(t)
			at := startEnvoy(t, s, func(conf string) string {
				return strings.Replace(conf, "failure_mode_deny: true", fmt.Sprintf("failure_mode_deny: %v", deny), 1)
			})
			before := s.served.Load()

			// The wait for Envoy has taken one of the five permits.
			var got []string
			for _, path := range []string{"/login", "/login", "/", "/login", "/login", "/"} {
				got = append(got, path+" "+get(t, at+path, "X-RateLimit-Remaining"))
			}
			assert.Equal(t, []string{"/login 200 left 2", "/login 200 left 1", "/ 200 left 1", "/login 200 left 0",
				"/login 429 left 0", "/ 429 left 0"}, got)
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

// Envoy limits other spellings of a path as that path, and rejects ambiguous ones.
func TestEnvoy_OtherSpellingsOfAPath_CountTogether(t *testing.T) {
	s := start(t)
	at := startEnvoy(t, s, func(conf string) string { return conf })
	var got []string
	for _, path := range []string{"//login", "/x/../login", "/x%2f..%2flogin", "/./%6Cogin"} {
		got = append(got, path+" "+get(t, at+path, "X-RateLimit-Remaining"))
	}
	assert.Equal(t, []string{
		"//login 200 left 2", "/x/../login 200 left 1", "/x%2f..%2flogin 400", "/./%6Cogin 200 left 0",
	}, got)
}

// The clusters for TLS and for a socket in docs/envoy.md reach the service.
func TestEnvoy_ClustersOfThePage_ReachTheService(t *testing.T) {
	section := golden.Between(t, golden.Text(t, "../../../docs/envoy.md"), "\n## TLS and unix sockets\n", "\n## ")
	var blocks []string
	for _, block := range golden.Code(section, "yaml") {
		blocks = append(blocks, "      "+strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n      "))
	}
	dir := t.TempDir()
	mutual := certificates(t, dir)
	secured := strings.NewReplacer("/run/envoy/", dir+"/").Replace(blocks[0])
	socket := filepath.Join(dir, "rrl.sock")
	local := strings.NewReplacer("/run/rls/rrl.sock", socket).Replace(blocks[1])

	t.Run("mutual TLS", func(t *testing.T) {
		s := start(t, func(c *rls.Config) { c.Options = []grpc.ServerOption{grpc.Creds(credentials.NewTLS(mutual))} })
		at := startEnvoy(t, s, func(conf string) string { return conf + secured + "\n" })
		assert.Equal(t, "200 left 2", get(t, at+"/login", "X-RateLimit-Remaining"))
	})
	t.Run("socket", func(t *testing.T) {
		s := start(t, func(c *rls.Config) {
			l, err := net.Listen("unix", socket)
			require.NoError(t, err)
			c.GRPC.Close()
			c.GRPC = l
		})
		at := startEnvoy(t, s, func(conf string) string {
			before, after, found := strings.Cut(conf, "    - name: limits\n      type: STRICT_DNS")
			require.True(t, found)
			kept, _, found := strings.Cut(after, "      load_assignment:\n")
			require.True(t, found)
			_, kept, _ = strings.Cut(kept, "\n")
			return before + "    - name: limits\n" + kept + local + "\n"
		})
		assert.Equal(t, "200 left 2", get(t, at+"/login", "X-RateLimit-Remaining"))
	})
}

// TestEnvoy_NegativeHitsAtTheEnd_AreSentForDeniedRequests: so a limit of calls in flight would return the
// places of others, and the service refuses the policy.
func TestEnvoy_NegativeHitsAtTheEnd_AreSentForDeniedRequests(t *testing.T) {
	s := start(t, func(c *rls.Config) {
		conf := "domain: edge\ndescriptors: [{key: model, value: x, rate_limit: {unit: hour, requests_per_unit: 2}}]\n"
		require.NoError(t, os.WriteFile(c.Path, []byte(conf), 0o600))
	})
	begun, end := make(chan string), make(chan struct{})
	s.upstream.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			begun <- "begun"
			<-end
		}
	})
	at := startEnvoy(t, s, func(conf string) string {
		before, after, found := strings.Cut(conf, "                        - match: {prefix: /}\n")
		require.True(t, found)
		_, rest, found := strings.Cut(after, "                http_filters:")
		require.True(t, found)
		return before + `                        - match: {prefix: /}
                          route: {cluster: program}
                          typed_per_filter_config:
                            envoy.filters.http.ratelimit:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                              rate_limits:
                                - actions: [{generic_key: {descriptor_key: model, descriptor_value: x}}]
                                - actions: [{generic_key: {descriptor_key: model, descriptor_value: x}}]
                                  apply_on_stream_done: true
                                  hits_addend: {number: 1, is_negative_hits: true}
                http_filters:` + rest
	})
	var all sync.WaitGroup
	for long := 0; long < 2; { // the hits at the end of the first requests may be late
		all.Go(func() {
			if response, err := http.Get(at + "/long"); assert.NoError(t, err) {
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					begun <- "denied"
				}
			}
		})
		if <-begun == "begun" {
			long++
		}
	}
	defer all.Wait()
	defer close(end)
	var got string
	for denied, deadline := false, time.Now().Add(10*time.Second); !denied || got != "200 left 0"; {
		require.True(t, time.Now().Before(deadline), got)
		got = get(t, at+"/", "X-RateLimit-Remaining")
		denied = denied || got == "429 left 0"
	}
}

// startEnvoy runs Envoy in front of a service, with a change of its configuration.
func startEnvoy(t *testing.T, s *service, change func(conf string) string) (at string) {
	t.Helper()
	listen := freePort()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	upstream, err := strconv.Atoi(s.upstream.URL[strings.LastIndexByte(s.upstream.URL, ':')+1:])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(change(envoyConf(t, listen, upstream, s.grpc))), 0o600))
	at = "http://" + port(listen)
	proxy(t, at+"/ready", envoy(t), "-c", file, "--base-id", fmt.Sprint(listen), "--concurrency", "1", "-l", "warn")
	return at
}

// certificates writes those of an Envoy, and returns the configuration of a service that wants
// them.
func certificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "limits"}, DNSNames: []string{"limits"},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for name, text := range map[string][]byte{"tls.crt": cert, "ca.crt": cert, "tls.key": private} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	pair, err := tls.X509KeyPair(cert, private)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(pair.Leaf)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}
