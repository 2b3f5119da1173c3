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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const edge = "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}\n"

// written gives a file with a text.
func written(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestServe_GRPCAndHTTP_ShareLimits: in the given Redis, until a signal ends the service. Its unix socket
// is for its user and group, and does not stay.
func TestServe_GRPCAndHTTP_ShareLimits(t *testing.T) {
	redis := startRedis(t)
	redis.run("CONFIG SET requirepass hidden")
	socket := filepath.Join(t.TempDir(), "rrl.sock")
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url(), "--password-file",
		written(t, "password", "hidden\n"), "--headers", "--grpc", "unix:"+socket)

	info, err := os.Stat(socket)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o660, info.Mode())
	for _, want := range []string{"OK", "OK", "OVER_LIMIT"} {
		answer, err := s.ask(t.Context(), "user=ann")
		require.NoError(t, err)
		assert.Equal(t, want, answer.GetOverallCode().String())
		assert.NotEmpty(t, answer.GetResponseHeadersToAdd(), "--headers")
	}
	_, text := s.get("/metrics")
	assert.Contains(t, text, `ratelimit_service_rate_limit_over_limit{domain="edge",key1="user",key2=""} 1`)

	assert.Equal(t, exitDone, s.stop())
	assert.NoFileExists(t, socket)
	assert.Contains(t, s.log.String(), "rrl: ended")
	assert.NotContains(t, s.log.String(), "hidden")
}

const webRules = "domain: web\nrules: [{name: all, key: all, limits: 1/h}]\n"

// TestServe_Rules_DecideForProxies: beside Envoy's files or without them, and after a change of the file.
func TestServe_Rules_DecideForProxies(t *testing.T) {
	redis := startRedis(t)
	file := written(t, "rules.yaml", webRules)
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url(), "--rules", file, "--debug")
	for _, want := range []int{200, 429} {
		code, _ := s.get("/auth")
		assert.Equal(t, want, code)
	}
	code, _ := s.get("/auth?denied=403")
	assert.Equal(t, 403, code)
	s.says("rules=[all]")
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	s.says("rls: request")

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

func TestServe_Prefix_SeparatesServices(t *testing.T) {
	redis := miniredis.RunT(t)
	for _, prefix := range []string{"", "staging:"} {
		s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+redis.Addr(), "--prefix", prefix)
		_, err := s.ask(t.Context(), "user=ann")
		require.NoError(t, err)
		assert.Equal(t, exitDone, s.stop())
	}
	assert.Len(t, redis.Keys(), 2)
	assert.Contains(t, tool("ls", "staging:*", "--redis", "redis://"+redis.Addr()).out, "staging:rls:")
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
		require.Equal(t, "OK", answer.GetOverallCode().String())
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

// TestServe_NoRedis_ModeDecidesUntilItComes: a service starts in an outage. Then Redis decides, and in the
// next outage the mode again.
func TestServe_NoRedis_ModeDecidesUntilItComes(t *testing.T) {
	redis := miniredis.NewMiniRedis()
	require.NoError(t, redis.Start())
	address := redis.Addr()
	redis.Close()
	rules := "domain: web\nrules: [{name: all, key: all, limits: 1/h, on_failure: open}]\n"
	s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+address, "--rules", written(t, "rules.yaml", rules))
	s.says("Redis cannot be reached")
	s.says(address + " (connection refused)")
	for range 3 {
		code, _ := s.get("/auth")
		require.Equal(t, 200, code)
	}
	_, err := s.ask(t.Context(), "user=ann")
	require.ErrorContains(t, err, "Unavailable")

	require.NoError(t, redis.StartAddr(address))
	require.Eventually(t, func() bool {
		_, err := s.ask(t.Context(), "user=ann")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		code, _ := s.get("/auth")
		return code == 429
	}, 20*time.Second, 10*time.Millisecond)

	redis.Close()
	_, err = s.ask(t.Context(), "user=ann")
	require.Error(t, err)
	code, _ := s.get("/healthcheck")
	assert.Equal(t, 200, code, "a service that is taken away answers no client")
}

// TestServe_JSONLog_IsJSON: also the error of a file that changes. Package rls tests the reload.
func TestServe_JSONLog_IsJSON(t *testing.T) {
	file := written(t, "edge.yaml", edge)
	s := started(t, file, "--redis", "redis://"+miniredis.RunT(t).Addr(), "-o", "json")
	s.says(`"msg":"rls: configuration in force"`) // what is read after this is another one
	require.NoError(t, os.WriteFile(file+"~", []byte(strings.Replace(edge, ": 2", ": two", 1)), 0o600))
	require.NoError(t, os.Rename(file+"~", file))
	s.says(file + `:3: descriptors[0].rate_limit.requests_per_unit: the text \"two\", want a whole number`)
	assert.Equal(t, exitDone, s.stop())
	for line := range strings.Lines(s.log.String()) {
		assert.True(t, json.Valid([]byte(line)), line)
	}
}

// TestServe_InvalidSetup_EndsInOneLine: with exit code 2, without waiting for Redis. The words FILE, WRONG, CERT,
// KEY and CA stand for files, TAKEN for an address and LOCKED for a Redis that requires a password.
func TestServe_InvalidSetup_EndsInOneLine(t *testing.T) {
	locked := startRedis(t)
	locked.run("CONFIG SET requirepass hidden")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	i, redis := newIdentity(t), "redis://"+miniredis.RunT(t).Addr()
	names := strings.NewReplacer("FILE", written(t, "edge.yaml", edge), "CERT", i.cert, "KEY", i.key, "CA", i.ca,
		"WRONG", written(t, "wrong.yaml", strings.Replace(edge, "year", "eon", 1)+"  - {keys: b}\n"),
		"TAKEN", taken.Addr().String(), "LOCKED", locked.url(), "FOLDER", t.TempDir())
	for _, test := range []struct {
		args string
		want string
	}{
		{"", "want PATH, a file or folder of limits for Envoy, or --rules"},
		{"--rules FILE --grpc :0", "--grpc requires PATH"},
		{"FILE --rules FILE --http=", "--rules requires --http"},
		{"FILE --rules FILE", `FILE:2:1: descriptors: unknown field "descriptors"`},
		{"FILE FILE", "accepts at most 1 arg(s), received 2"},
		{"/nowhere", "/nowhere: cannot be read: no such file or directory"},
		{"FOLDER", "has no file whose name ends in .yaml"},
		{"WRONG", `WRONG:3: descriptors[0].rate_limit.unit: is "eon", want second,`},
		{"WRONG", "the first of 2 errors, rrl rules check WRONG reports all"},
		{"FILE --grpc= --http=", "want at least one address"},
		{"FILE --grpc 8081", `--grpc "8081": listen tcp: address 8081: missing port in address; want HOST:PORT`},
		{"FILE --http TAKEN", `--http "TAKEN": listen tcp TAKEN: bind: address already in use`},
		{"FILE --grpc unix:FILE", `--grpc "unix:FILE": listen unix FILE: bind: address already in use`},
		{"FILE --grpc-tls-cert CERT", "--grpc-tls-cert and --grpc-tls-key go together"},
		{"FILE --grpc-tls-key KEY", "--grpc-tls-cert and --grpc-tls-key go together"},
		{"FILE --grpc-tls-client-ca CA", "--grpc-tls-client-ca requires --grpc-tls-cert"},
		{"FILE --grpc= --grpc-tls-cert CERT --grpc-tls-key KEY", "require --grpc"},
		{"FILE --grpc-tls-cert CERT --grpc-tls-key FILE", "failed to find any PEM data"},
		{"FILE --grpc-tls-cert CERT --grpc-tls-key /nowhere", "/nowhere: no such file"},
		{"FILE --grpc-tls-cert CERT --grpc-tls-key KEY --grpc-tls-client-ca FILE", "FILE has no PEM certificate"},
		{"FILE --grpc-max-connection-age -1s", "--grpc-max-connection-age -1s: want 0 or more"},
		{"FILE --prefix {a}", `--prefix "{a}": want no braces`},
		{"FILE --drain -1s", "--drain -1s: want 0 or more"},
		{"FILE --deadline 0s", "--deadline 0s: want a time above 0"},
		{"FILE --lease 2s", "--lease 2s: want whole milliseconds from 1ms to 1s, or 0 for none"},
		{"FILE --lease 1500us", "--lease 1.5ms: want whole"},
		{"FILE --lease -1ms", "--lease -1ms: want whole"},
		{"FILE --near-limit 80", "--near-limit 80: want a share"},
		{"FILE --redis LOCKED", locked.addr + " requires a password"},
		{"FILE --redis http://x", "rediss:// (TLS)"},
	} {
		args := []string{"serve", "--redis", redis, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}
		r := fails(t, append(args, strings.Fields(names.Replace(test.args))...), names.Replace(test.want))
		require.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
		require.True(t, strings.HasPrefix(r.err, "rrl: "), r.err)
	}
}
