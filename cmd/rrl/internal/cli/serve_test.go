package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
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
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
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

// TestServe_PasswordChanges_NewFileIsRead: for each new connection. Until then the health reports that
// Redis refuses the service.
func TestServe_PasswordChanges_NewFileIsRead(t *testing.T) {
	redis := startRedis(t)
	redis.run("CONFIG SET requirepass before")
	file := written(t, "password", "before\n")
	s := serve(t, written(t, "edge.yaml", edge), "--redis", redis.url(), "--password-file", file)
	require.NoError(t, redistest.Err(s.ask(t.Context(), "user=ann")))
	health := func(want int) {
		require.Eventually(t, func() bool {
			code, _ := s.get("/healthcheck")
			return code == want
		}, 20*time.Second, 10*time.Millisecond)
	}
	health(200)
	redis.run("CONFIG SET requirepass after", "CLIENT KILL TYPE normal SKIPME yes")
	health(500)
	_, text := s.get("/healthcheck")
	assert.Contains(t, text, "Redis refuses the password")
	status, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, status.GetStatus())
	require.Eventually(t, func() bool { // each connection notices that it was closed
		_, err := s.ask(t.Context(), "user=ann")
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	}, 20*time.Second, 10*time.Millisecond)

	require.NoError(t, os.WriteFile(file, []byte("after\n"), 0o600))
	health(200)
	require.Eventually(t, func() bool {
		_, err := s.ask(t.Context(), "user=ann")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	assert.NotContains(t, s.log.String(), "after\n")
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
	require.NoError(t, redistest.Err(s.ask(t.Context(), "user=ann")))
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
		require.NoError(t, redistest.Err(s.ask(t.Context(), "user=ann")))
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

// TestServe_Prefetch_AnswersBusyKeysFromMemory: and releases unused permits at the end.
func TestServe_Prefetch_AnswersBusyKeysFromMemory(t *testing.T) {
	redis := startRedis(t)
	file := written(t, "busy.yaml", "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000}}\n")
	s := serve(t, file, "--redis", redis.url(), "--prefetch", "1s")
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
	redis, address, come := redistest.Away(t)
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

	come()
	require.Eventually(t, func() bool {
		_, err := s.ask(t.Context(), "user=ann")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		code, _ := s.get("/auth")
		return code == 429
	}, 20*time.Second, 10*time.Millisecond)

	redis.Close()
	require.Error(t, redistest.Err(s.ask(t.Context(), "user=ann")))
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
		{"FILE --prefetch 2s", "--prefetch 2s: want whole milliseconds from 1ms to 1s, or 0 for none"},
		{"FILE --prefetch 1500us", "--prefetch 1.5ms: want whole"},
		{"FILE --prefetch -1ms", "--prefetch -1ms: want whole"},
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

// certAuthority signs certificates.
type certAuthority struct {
	pem  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// keyPair is a certificate and its key, in PEM.
type keyPair struct{ cert, key []byte }

// newAuthority creates a self-signed authority.
func newAuthority(t testing.TB) *certAuthority {
	t.Helper()
	a := new(certAuthority)
	a.cert, a.key = a.issue(t, "authority")
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return a
}

// issue creates a certificate for servers and clients on 127.0.0.1 and localhost. The first one is the authority's.
func (a *certAuthority) issue(t testing.TB, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}

// sign creates a certificate and its key.
func (a *certAuthority) sign(t testing.TB, name string) keyPair {
	t.Helper()
	cert, key := a.issue(t, name)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

// client returns the configuration of a client that trusts the authority, with an optional certificate.
func (a *certAuthority) client(t testing.TB, shows ...keyPair) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(a.cert)
	for _, p := range shows {
		cert, err := tls.X509KeyPair(p.cert, p.key)
		require.NoError(t, err)
		config.Certificates = append(config.Certificates, cert)
	}
	return config
}

// identity is the certificate, the key and the authority of a service, in files.
type identity struct {
	*certAuthority
	cert, key, ca string
}

func newIdentity(t testing.TB) identity {
	a := newAuthority(t)
	pair := a.sign(t, "service")
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
		s.awaitWith(credentials.NewTLS(i.client(t, i.sign(t, "envoy"))))
		require.NoError(t, redistest.Err(s.ask(t.Context(), "user=ann")))
		code, _ := s.get("/healthcheck")
		assert.Equal(t, 200, code, "HTTP is without TLS, for probes")

		s.awaitWith(credentials.NewTLS(i.client(t)))
		_, err := s.ask(t.Context(), "user=ann")
		require.Equal(t, mutual, err != nil, "a client without a certificate: %v", err)
		s.await()
		require.Error(t, redistest.Err(s.ask(t.Context(), "user=ann")), "a client without TLS")
		assert.Equal(t, exitDone, s.stop())
	}
}

func TestServe_MaximumConnectionAge_EndsConnections(t *testing.T) {
	s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(),
		"--grpc-max-connection-age", "100ms")
	require.NoError(t, redistest.Err(s.ask(t.Context(), "user=ann")))
	assert.True(t, s.conn.WaitForStateChange(t.Context(), connectivity.Ready), "the connection is ended")
	_, err := s.ask(t.Context(), "user=ann") // on another connection
	require.NoError(t, err)
}

// certFixture has the files of a certificate, and a server's configuration that reads them.
type certFixture struct {
	testing.TB
	*certAuthority
	files  certFiles
	config *tls.Config
	log    bytes.Buffer
}

func newCertFixture(t testing.TB) *certFixture {
	dir := filepath.Join(t.TempDir(), "..data")
	f := &certFixture{TB: t, certAuthority: newAuthority(t),
		files: certFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}}
	f.swap("first")
	var err error
	f.config, err = f.files.serverTLS(slog.New(slog.NewTextHandler(&f.log, nil)))
	require.NoError(t, err)
	return f
}

func (f *certFixture) write(file string, text []byte) {
	require.NoError(f, os.WriteFile(file, text, 0o600))
	// A file system may date two writes alike.
	info, err := os.Stat(file)
	require.NoError(f, err)
	step := time.Duration(f.log.Len()+1) * time.Millisecond
	require.NoError(f, os.Chtimes(file, time.Time{}, info.ModTime().Add(step)))
}

func (f *certFixture) renew(name string) {
	pair := f.sign(f, name)
	f.write(f.files.Cert, pair.cert)
	f.write(f.files.Key, pair.key)
}

// swap lets a link lead to a new folder with the files, as Kubernetes does.
func (f *certFixture) swap(name string) {
	link := filepath.Dir(f.files.Cert)
	_ = os.Remove(link)
	require.NoError(f, os.Symlink(f.TempDir(), link))
	f.renew(name)
}

// shows checks the certificate of a new connection.
func (f *certFixture) shows(want string) {
	f.Helper()
	pair, err := f.config.GetCertificate(new(tls.ClientHelloInfo))
	require.NoError(f, err)
	require.Equal(f, want, pair.Leaf.Subject.CommonName)
}

func TestCertificates_RenewedFiles_AreInForceForNewConnections(t *testing.T) {
	f := newCertFixture(t)
	f.shows("first")
	f.renew("second")
	f.shows("second")
	f.shows("second")
	require.Equal(t, 2, strings.Count(f.log.String(), "certificate in force"), "files that stay as they are are read once")
	f.swap("third")
	f.shows("third")
}

// Whatever is half replaced or broken leaves in force what was right, is logged once, and is in
// force once it is whole.
func TestCertificates_FilesThatAreWrong_LeaveTheOnesBefore(t *testing.T) {
	for name, change := range map[string]func(f *certFixture, pair keyPair){
		"certificate without its key": func(f *certFixture, pair keyPair) { f.write(f.files.Cert, pair.cert) },
		"key without its certificate": func(f *certFixture, pair keyPair) { f.write(f.files.Key, pair.key) },
		"half a certificate": func(f *certFixture, pair keyPair) {
			f.write(f.files.Cert, pair.cert[:len(pair.cert)/2])
		},
		"no certificate": func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Cert)) },
		"no key":         func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Key)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newCertFixture(t)
			change(f, f.sign(t, "other"))
			f.shows("first")
			f.shows("first")
			require.Equal(t, 1, strings.Count(f.log.String(), "invalid certificate"), f.log.String())
			f.renew("second")
			f.shows("second")
		})
	}
}
