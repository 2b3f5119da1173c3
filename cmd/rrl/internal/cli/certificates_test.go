package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certFixture has certificates, their files and a server's configuration.
type certFixture struct {
	testing.TB
	files     certFiles
	authority *certAuthority
	config    *tls.Config
	log       bytes.Buffer
}

func newCertFixture(t testing.TB) *certFixture {
	dir := filepath.Join(t.TempDir(), "..data")
	f := &certFixture{
		TB: t, authority: newAuthority(t, "authority"),
		files: certFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")},
	}
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
	pair := f.authority.sign(f, name, time.Hour)
	f.write(f.files.Cert, pair.cert)
	f.write(f.files.Key, pair.key)
}

// swap lets a link lead to a new folder with the files, as Kubernetes does.
func (f *certFixture) swap(name string) {
	link := filepath.Dir(f.files.Cert)
	_ = os.Remove(link)
	require.NoError(f, os.Symlink(f.TempDir(), link))
	f.renew(name)
	f.write(f.files.ClientCA, f.authority.pem)
}

// shown connects and returns the name in the certificate that the server shows.
func (f *certFixture) shown(client *tls.Config) (string, error) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		server := tls.Server(far, f.config)
		defer far.Close()
		if server.Handshake() == nil {
			_, _ = server.Write([]byte("x")) // what a client learns of a refusal it learns here
		}
	}()
	client = client.Clone()
	client.ServerName = "localhost"
	conn := tls.Client(near, client)
	if err := conn.Handshake(); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func (f *certFixture) shows(want string) {
	f.Helper()
	name, err := f.shown(f.authority.client(f, f.authority.sign(f, "client", time.Hour)))
	require.NoError(f, err)
	require.Equal(f, want, name)
}

func TestCertificates_RenewedFiles_AreInForceForNewConnections(t *testing.T) {
	f := newCertFixture(t)
	f.shows("first")
	f.renew("second")
	f.shows("second")
	require.Equal(t, 2, strings.Count(f.log.String(), "certificate in force"))
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
		"empty certificate": func(f *certFixture, _ keyPair) { f.write(f.files.Cert, nil) },
		"no certificate":    func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Cert)) },
		"no key":            func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Key)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newCertFixture(t)
			pair := f.authority.sign(t, "second", time.Hour)
			change(f, pair)
			for range 3 {
				f.shows("first")
			}
			require.Equal(t, 1, strings.Count(f.log.String(), "invalid certificate"), f.log.String())
			_ = os.Remove(f.files.Key)
			f.write(f.files.Cert, pair.cert)
			f.write(f.files.Key, pair.key)
			f.shows("second")
		})
	}
}
