package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
)

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

func TestServe_MaximumConnectionAge_EndsConnections(t *testing.T) {
	s := serve(t, written(t, "edge.yaml", edge), "--redis", "redis://"+miniredis.RunT(t).Addr(),
		"--grpc-max-connection-age", "100ms")
	_, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.True(t, s.conn.WaitForStateChange(t.Context(), connectivity.Ready), "the connection is ended")
	_, err = s.ask(t.Context(), "user=ann") // on another connection
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
