package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const edge = "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}\n"

// written gives a file with a text.
func written(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestServe_GRPCAndHTTP_ShareLimits: in the given Redis, until a signal ends the service.
func TestServe_GRPCAndHTTP_ShareLimits(t *testing.T) {
	redis := startRedis(t)
	redis.run("CONFIG SET requirepass hidden")
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url(), "--password-file",
		written(t, "password", "hidden\n"), "--headers")

	health, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	for _, want := range []ratelimit.RateLimitResponse_Code{ratelimit.RateLimitResponse_OK,
		ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT} {
		answer, err := s.ask(t.Context(), "user=ann")
		require.NoError(t, err)
		assert.Equal(t, want, answer.GetOverallCode())
		assert.NotEmpty(t, answer.GetResponseHeadersToAdd(), "--headers")
	}
	code, _ := s.get("/healthcheck")
	assert.Equal(t, 200, code)
	_, text := s.get("/metrics")
	assert.Contains(t, text, `ratelimit_service_rate_limit_over_limit{domain="edge",key1="user"} 1`)
	_, text = s.get("/rlconfig")
	assert.Contains(t, text, "edge.user: unit=YEAR requests_per_unit=2")

	assert.Equal(t, exitDone, s.stop())
	assert.Contains(t, s.log.String(), "rrl: ended")
	assert.NotContains(t, s.log.String(), "hidden")
}

const webRules = "domain: web\nrules: [{name: all, key: all, limits: 1/h}]\n"

// TestServe_Rules_DecideForProxies: beside Envoy's files or without them, and after a change of the file.
func TestServe_Rules_DecideForProxies(t *testing.T) {
	redis := startRedis(t)
	file := written(t, "rules.yaml", webRules)
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url(), "--rules", file)
	for _, want := range []int{200, 429} {
		code, _ := s.get("/auth")
		assert.Equal(t, want, code)
	}
	code, _ := s.get("/auth?denied=403")
	assert.Equal(t, 403, code)
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, []byte("domain: web\nrules: [{name: ip, key: ip, limits: 1/h}]\n"), 0o600))
	s.says("rrl: rules in force")
	require.Eventually(t, func() bool {
		code, _ := s.get("/auth")
		return code == 503
	}, 20*time.Second, 10*time.Millisecond, "the peer is no trusted proxy")
	s.says("is not trusted: add it to address.trusted")
	assert.Equal(t, exitDone, s.stop())

	alone := started(t, "--grpc", "", "--redis", redis.url(), "--rules", file, "--shadow")
	alone.says("rrl: serving")
	assert.Equal(t, exitDone, alone.stop())
}

// TestServe_Signal_FinishesRequests: that Redis still decides.
func TestServe_Signal_FinishesRequests(t *testing.T) {
	redis := startRedis(t)
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url())
	_, err := s.ask(t.Context(), "user=bob") // its script is known
	require.NoError(t, err)
	redis.run("CLIENT PAUSE 60000 WRITE")
	answered := make(chan error, 1)
	go func() {
		_, err := s.ask(t.Context(), "user=ann")
		answered <- err
	}()
	require.Eventually(t, func() bool { return strings.Contains(redis.text("INFO", "clients"), "blocked_clients:1\r\n") },
		20*time.Second, 5*time.Millisecond)
	ended := make(chan int, 1)
	go func() { ended <- s.stop() }()
	s.says("rrl: ending")
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.http, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, 4*time.Second, 5*time.Millisecond, "it still takes connections")
	select {
	case <-ended:
		t.Fatal("it ended with a request under way")
	default:
	}
	redis.run("CLIENT UNPAUSE")
	assert.NoError(t, <-answered)
	assert.Equal(t, exitDone, <-ended)
}

// TestServe_Lease_AnswersBusyKeysFromMemory: and releases unused permits at the end.
func TestServe_Lease_AnswersBusyKeysFromMemory(t *testing.T) {
	redis := startRedis(t)
	file := written(t, "busy.yaml", "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000}}\n")
	s := serve(t, file, "--redis", redis.url(), "--lease", "1s")
	calls := func() int {
		found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(redis.text("INFO", "commandstats"))
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return n
	}
	asked := 0
	for asked == 0 || calls() >= asked { // until a request makes no call
		require.Less(t, asked, 100_000)
		asked++
		answer, err := s.ask(t.Context(), "user=bob")
		require.NoError(t, err)
		require.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	}
	assert.Equal(t, exitDone, s.stop())
	s = serve(t, file, "--redis", redis.url())
	answer, err := s.ask(t.Context(), "user=bob")
	require.NoError(t, err)
	assert.EqualValues(t, 1_000_000-asked-1, answer.GetStatuses()[0].GetLimitRemaining())
}

// TestLimiters_HostClock_IsNoOption: WithClock costs a goroutine per reading, and pipelines.
func TestLimiters_HostClock_IsNoOption(t *testing.T) {
	assert.Empty(t, (&app{}).byClock())
	assert.Len(t, (&app{clock: time.Now}).byClock(), 1)
}

// TestServe_NoRedis_WaitsAndLogs: until Redis answers or a signal ends the service.
func TestServe_NoRedis_WaitsAndLogs(t *testing.T) {
	redis := miniredis.NewMiniRedis()
	require.NoError(t, redis.Start())
	address := redis.Addr()
	redis.Close()
	file := written(t, "edge.yaml", edge)
	s := started(t, file, "--redis", "redis://"+address)
	s.says("waiting for Redis, nothing is served yet")
	s.says(address + " (connection refused)")
	impatient := started(t, file, "--redis", "redis://"+address)
	impatient.says("waiting for Redis")
	assert.Equal(t, exitDone, impatient.stop())

	require.NoError(t, redis.StartAddr(address))
	defer redis.Close()
	s.await()
	answer, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())

	redis.Close()
	_, err = s.ask(t.Context(), "user=ann")
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	health, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus(),
		"a service that is taken away answers no client")
}

// TestServe_InvalidFile_KeepsTheOldRules: the log has the place of the error. With -o json it is JSON.
func TestServe_InvalidFile_KeepsTheOldRules(t *testing.T) {
	file := written(t, "edge.yaml", edge)
	s := started(t, file, "--redis", "redis://"+miniredis.RunT(t).Addr(), "-o", "json")
	s.says(`"msg":"rls: configuration in force"`) // what is read after this is another one
	for line := range strings.Lines(s.log.String()) {
		var report struct{ Msg, HTTP string }
		require.NoError(t, json.Unmarshal([]byte(line), &report), line)
		if report.HTTP != "" {
			s.http = "http://" + report.HTTP
		}
	}
	wrong := strings.Replace(edge, "requests_per_unit: 2", "requests_per_unit: two", 1)
	require.NoError(t, os.WriteFile(file+"~", []byte(wrong), 0o600))
	require.NoError(t, os.Rename(file+"~", file))
	s.says("the configuration is wrong, the one before stays in force")
	s.says(file + `:3: descriptors[0].rate_limit.requests_per_unit: the text \"two\", want a whole number`)
	_, text := s.get("/rlconfig")
	assert.Contains(t, text, "requests_per_unit=2,")
}

// TestServe_InvalidSetup_EndsInOneLine: with exit code 2, without waiting for Redis.
func TestServe_InvalidSetup_EndsInOneLine(t *testing.T) {
	redis := startRedis(t)
	locked := startRedis(t)
	locked.run("CONFIG SET requirepass hidden")
	replica := startRedis(t)
	host, port, _ := net.SplitHostPort(redis.addr)
	replica.run("REPLICAOF " + host + " " + port)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	file, i := written(t, "edge.yaml", edge), newIdentity(t)
	wrong := written(t, "wrong.yaml", "domain: edge\ndescriptors:\n  - {key: a, rate_limit: {unit: eon, requests_per_unit: 1}}\n  - {keys: b}\n")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"rrl serve takes one file or folder, got 0, or --rules", "rrl serve --help"}},
		{[]string{"--rules", file, "--grpc", ":0"}, []string{"--grpc requires PATH"}},
		{[]string{file, "--rules", file, "--http", ""}, []string{"--rules requires --http"}},
		{[]string{file, "--rules", file}, []string{file + `:2:1: descriptors: unknown field "descriptors"`}},
		{[]string{file, file}, []string{"takes one file or folder, got 2"}},
		{[]string{"/nowhere"}, []string{"/nowhere: cannot be read: no such file or directory"}},
		{[]string{t.TempDir()}, []string{"has no file whose name ends in .yaml"}},
		{[]string{wrong}, []string{wrong + `:3: descriptors[0].rate_limit.unit: is "eon", want second,`,
			"the first of 2 errors, rrl rules check " + wrong + " reports all"}},
		{[]string{file, "--grpc", "", "--http", ""}, []string{"want at least one address"}},
		{[]string{file, "--grpc", "8081"}, []string{`--grpc "8081"`, "missing port", "HOST:PORT"}},
		{[]string{file, "--http", taken.Addr().String()}, []string{"--http", taken.Addr().String(), "already in use"}},
		{[]string{file, "--grpc", "unix:" + file}, []string{`--grpc "unix:`, "another file, not a socket"}},
		{[]string{file, "--grpc-tls-cert", i.cert}, []string{"--grpc-tls-cert and --grpc-tls-key go together"}},
		{[]string{file, "--grpc-tls-key", i.key}, []string{"--grpc-tls-cert and --grpc-tls-key go together"}},
		{[]string{file, "--grpc-tls-client-ca", i.ca}, []string{"--grpc-tls-client-ca requires --grpc-tls-cert"}},
		{[]string{file, "--grpc", "", "--grpc-tls-cert", i.cert, "--grpc-tls-key", i.key},
			[]string{"require --grpc"}},
		{[]string{file, "--grpc-tls-cert", i.cert, "--grpc-tls-key", file},
			[]string{"--grpc-tls-cert", "failed to find any PEM data"}},
		{[]string{file, "--grpc-tls-cert", i.cert, "--grpc-tls-key", "/nowhere"},
			[]string{"--grpc-tls-key", "/nowhere: no such file"}},
		{[]string{file, "--grpc-tls-cert", i.cert, "--grpc-tls-key", i.key, "--grpc-tls-client-ca", file},
			[]string{"--grpc-tls-client-ca", file, "PEM blocks are complete"}},
		{[]string{file, "--grpc-max-connection-age", "-1s"}, []string{"--grpc-max-connection-age -1s: want 0 or more"}},
		{[]string{file, "--http-connections", "0"}, []string{"--http-connections 0: want at least 1"}},
		{[]string{file, "--prefix", "{a}"}, []string{`--prefix "{a}": want no braces`}},
		{[]string{file, "--drain", "-1s"}, []string{"--drain -1s: want 0 or more"}},
		{[]string{file, "--deadline", "0s"}, []string{"--deadline 0s: want a time above 0"}},
		{[]string{file, "--lease", "2s"}, []string{"--lease 2s: want whole milliseconds from 1ms to 1s, or 0 for none"}},
		{[]string{file, "--lease", "1500us"}, []string{"--lease 1.5ms: want whole"}},
		{[]string{file, "--lease", "-1ms"}, []string{"--lease -1ms: want whole"}},
		{[]string{file, "--near-limit", "80"}, []string{"--near-limit 80: want a share"}},
		{[]string{file, "--max-series", "0"}, []string{"--max-series 0: want at least 1"}},
		{[]string{file, "--redis", locked.url()}, []string{locked.addr, "requires a password", "--password-file"}},
		{[]string{file, "--redis", replica.url()}, []string{replica.addr, "is a replica"}},
		{[]string{file, "--redis", "http://x"}, []string{"rediss:// (TLS)"}},
		{[]string{file, "--password-file", "/nowhere"}, []string{"--password-file", "no such file"}},
	} {
		r := tool(append([]string{"serve", "--redis", redis.url(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"},
			test.args...)...)
		require.Equal(t, exitError, r.code, "%q: %s", test.args, r.err)
		require.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
		require.True(t, strings.HasPrefix(r.err, "rrl: "), r.err)
		for _, want := range test.want {
			require.Contains(t, r.err, want, "%q", test.args)
		}
	}
}
