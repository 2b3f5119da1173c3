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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certFixture has certificates, their files, and a clock that goes by hand.
type certFixture struct {
	testing.TB
	*certificates
	files     certFiles
	authority *certAuthority
	clock     time.Time
	config    *tls.Config // one for all connections, as of a server
	log       bytes.Buffer
}

func newCertFixture(t testing.TB) *certFixture {
	dir := filepath.Join(t.TempDir(), "..data")
	f := &certFixture{
		TB: t, authority: newAuthority(t, "authority"), clock: time.Now(),
		files: certFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")},
	}
	f.swap("first")
	var err error
	f.certificates, err = openCertificates(f.files, slog.New(slog.NewTextHandler(&f.log, nil)))
	require.NoError(t, err)
	f.now = func() time.Time { return f.clock }
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

// shown connects after a while, and returns the name in the certificate that the server shows.
func (f *certFixture) shown(client *tls.Config) (string, error) {
	f.clock = f.clock.Add(checkEvery)
	if f.config == nil {
		f.config = f.serverConfig()
	}
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
		"an intermediate that is half there": func(f *certFixture, pair keyPair) {
			f.write(f.files.Key, pair.key)
			f.write(f.files.Cert, append(pair.cert, f.authority.pem[:100]...))
		},
		"empty certificate": func(f *certFixture, _ keyPair) { f.write(f.files.Cert, nil) },
		"no certificate":    func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Cert)) },
		"no key":            func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.Key)) },
		"a folder": func(f *certFixture, _ keyPair) {
			require.NoError(f, os.Remove(f.files.Key))
			require.NoError(f, os.Mkdir(f.files.Key, 0o700))
		},
		// To open a pipe without a writer would hold up all connections.
		"a pipe": func(f *certFixture, _ keyPair) {
			require.NoError(f, os.Remove(f.files.Key))
			require.NoError(f, syscall.Mkfifo(f.files.Key, 0o600))
		},
		"no authorities":    func(f *certFixture, _ keyPair) { require.NoError(f, os.Remove(f.files.ClientCA)) },
		"empty authorities": func(f *certFixture, _ keyPair) { f.write(f.files.ClientCA, []byte("# none\n")) },
		"half an authority": func(f *certFixture, _ keyPair) {
			f.write(f.files.ClientCA, append(newAuthority(f, "other").pem, f.authority.pem[:200]...))
		},
		"a broken authority": func(f *certFixture, _ keyPair) {
			broken := bytes.Replace(f.authority.pem, []byte("\nMII"), []byte("\nMIX"), 1)
			f.write(f.files.ClientCA, append(broken, newAuthority(f, "other").pem...))
		},
		"a key as authority": func(f *certFixture, pair keyPair) { f.write(f.files.ClientCA, pair.key) },
		"expired": func(f *certFixture, _ keyPair) {
			pair := f.authority.sign(f, "expired", -time.Minute)
			f.write(f.files.Cert, pair.cert)
			f.write(f.files.Key, pair.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCertFixture(t)
			pair := f.authority.sign(t, "second", time.Hour)
			change(f, pair)
			for range 3 {
				f.shows("first")
			}
			require.Equal(t, 1, strings.Count(f.log.String(), "invalid certificates"), f.log.String())
			f.reload()
			require.Equal(t, 2, strings.Count(f.log.String(), "invalid certificates"), "each call reports it")
			f.shows("first")
			_ = os.Remove(f.files.Key)
			f.write(f.files.Cert, pair.cert)
			f.write(f.files.Key, pair.key)
			f.write(f.files.ClientCA, f.authority.pem)
			f.shows("second")
		})
	}
}

// A certificate that is not valid replaces one that is not valid either, and serves at the start:
// this clock may be wrong.
func TestCertificates_ExpiredCertificate_WarnsAtTheStart(t *testing.T) {
	f := newCertFixture(t)
	f.clock = f.clock.Add(2 * time.Hour)
	f.renew("second")
	f.reload()
	require.Equal(t, "second", f.current.Certificates[0].Leaf.Subject.CommonName)
	require.Contains(t, f.log.String(), "the certificate is not valid now")
}

// TestCertificates_Clients_AreChecked: those of an authority that was taken out are refused from then on, also
// with a session of before.
func TestCertificates_Clients_AreChecked(t *testing.T) {
	f := newCertFixture(t)
	other := newAuthority(t, "other")
	_, err := f.shown(f.authority.client(t))
	require.ErrorContains(t, err, "certificate required")
	_, err = f.shown(f.authority.client(t, other.sign(t, "client", time.Hour)))
	require.Error(t, err)
	_, err = f.shown(f.authority.client(t, f.authority.sign(t, "client", -time.Minute)))
	require.ErrorContains(t, err, "expired")

	client := f.authority.client(t, f.authority.sign(t, "client", time.Hour))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	_, err = f.shown(client)
	require.NoError(t, err)
	f.write(f.files.ClientCA, other.pem)
	_, err = f.shown(client)
	require.Error(t, err)
	_, err = f.shown(f.authority.client(t, other.sign(t, "client", time.Hour)))
	require.NoError(t, err)
}
