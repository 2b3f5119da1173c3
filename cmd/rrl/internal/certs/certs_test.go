package certs

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

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/testcert"
)

// fixture is a Source, its files, and a clock that goes by hand.
type fixture struct {
	testing.TB
	*Source
	files     Files
	authority *testcert.Authority
	clock     time.Time
	config    *tls.Config // one for all connections, as of a server
	log       bytes.Buffer
}

func newFixture(t testing.TB) *fixture {
	dir := filepath.Join(t.TempDir(), "..data")
	f := &fixture{
		TB: t, authority: testcert.NewAuthority(t, "authority"), clock: time.Now(),
		files: Files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")},
	}
	f.swap("first")
	var err error
	f.Source, err = Open(f.files, slog.New(slog.NewTextHandler(&f.log, nil)))
	require.NoError(t, err)
	f.now = func() time.Time { return f.clock }
	return f
}

func (f *fixture) write(file string, text []byte) {
	require.NoError(f, os.WriteFile(file, text, 0o600))
	// A file system may date two writes alike.
	info, err := os.Stat(file)
	require.NoError(f, err)
	step := time.Duration(f.log.Len()+1) * time.Millisecond
	require.NoError(f, os.Chtimes(file, time.Time{}, info.ModTime().Add(step)))
}

func (f *fixture) renew(name string) {
	pair := f.authority.Sign(f, name, time.Hour)
	f.write(f.files.Cert, pair.Cert)
	f.write(f.files.Key, pair.Key)
}

// swap lets a link lead to a new folder with the files, as Kubernetes does.
func (f *fixture) swap(name string) {
	link := filepath.Dir(f.files.Cert)
	_ = os.Remove(link)
	require.NoError(f, os.Symlink(f.TempDir(), link))
	f.renew(name)
	f.write(f.files.ClientCA, f.authority.PEM)
}

// shown connects after a while, and returns the name in the certificate that the server shows.
func (f *fixture) shown(client *tls.Config) (string, error) {
	f.clock = f.clock.Add(every)
	if f.config == nil {
		f.config = f.Config()
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

func (f *fixture) shows(want string) {
	f.Helper()
	name, err := f.shown(f.authority.Client(f, f.authority.Sign(f, "client", time.Hour)))
	require.NoError(f, err)
	require.Equal(f, want, name)
}

func TestSource_RenewedFiles_AreInForceForNewConnections(t *testing.T) {
	f := newFixture(t)
	f.shows("first")
	f.renew("second")
	f.shows("second")
	require.Equal(t, 2, strings.Count(f.log.String(), "certificate in force"))
	f.shows("second")
	require.Equal(t, 2, strings.Count(f.log.String(), "certificate in force"), "files that stay as they are are read once")
}

func TestSource_SwappedFolder_IsSeen(t *testing.T) {
	f := newFixture(t)
	f.shows("first")
	f.swap("second")
	f.shows("second")
}

// Whatever is half replaced or broken leaves in force what was right, is logged once, and is in
// force once it is whole.
func TestSource_FilesThatAreWrong_LeaveTheOnesBefore(t *testing.T) {
	for name, change := range map[string]func(f *fixture, pair testcert.Pair){
		"certificate without its key": func(f *fixture, pair testcert.Pair) { f.write(f.files.Cert, pair.Cert) },
		"key without its certificate": func(f *fixture, pair testcert.Pair) { f.write(f.files.Key, pair.Key) },
		"half a certificate": func(f *fixture, pair testcert.Pair) {
			f.write(f.files.Cert, pair.Cert[:len(pair.Cert)/2])
		},
		"an intermediate that is half there": func(f *fixture, pair testcert.Pair) {
			f.write(f.files.Key, pair.Key)
			f.write(f.files.Cert, append(pair.Cert, f.authority.PEM[:100]...))
		},
		"empty certificate": func(f *fixture, _ testcert.Pair) { f.write(f.files.Cert, nil) },
		"no certificate":    func(f *fixture, _ testcert.Pair) { require.NoError(f, os.Remove(f.files.Cert)) },
		"no key":            func(f *fixture, _ testcert.Pair) { require.NoError(f, os.Remove(f.files.Key)) },
		"a folder": func(f *fixture, _ testcert.Pair) {
			require.NoError(f, os.Remove(f.files.Key))
			require.NoError(f, os.Mkdir(f.files.Key, 0o700))
		},
		"no authorities":    func(f *fixture, _ testcert.Pair) { require.NoError(f, os.Remove(f.files.ClientCA)) },
		"empty authorities": func(f *fixture, _ testcert.Pair) { f.write(f.files.ClientCA, []byte("# none\n")) },
		"half an authority": func(f *fixture, _ testcert.Pair) {
			f.write(f.files.ClientCA, append(testcert.NewAuthority(f, "other").PEM, f.authority.PEM[:200]...))
		},
		"a broken authority": func(f *fixture, _ testcert.Pair) {
			broken := bytes.Replace(f.authority.PEM, []byte("\nMII"), []byte("\nMIX"), 1)
			f.write(f.files.ClientCA, append(broken, testcert.NewAuthority(f, "other").PEM...))
		},
		"a key as authority": func(f *fixture, pair testcert.Pair) { f.write(f.files.ClientCA, pair.Key) },
		"expired": func(f *fixture, _ testcert.Pair) {
			pair := f.authority.Sign(f, "expired", -time.Minute)
			f.write(f.files.Cert, pair.Cert)
			f.write(f.files.Key, pair.Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			pair := f.authority.Sign(t, "second", time.Hour)
			change(f, pair)
			for range 3 {
				f.shows("first")
			}
			require.Equal(t, 1, strings.Count(f.log.String(), "invalid certificates"), f.log.String())
			f.Reload()
			require.Equal(t, 2, strings.Count(f.log.String(), "invalid certificates"), "each call reports it")
			f.shows("first")
			_ = os.Remove(f.files.Key)
			f.write(f.files.Cert, pair.Cert)
			f.write(f.files.Key, pair.Key)
			f.write(f.files.ClientCA, f.authority.PEM)
			f.shows("second")
		})
	}
}

// A certificate that is not valid replaces one that is not valid either, and serves at the start:
// this clock may be wrong.
func TestSource_ExpiredCertificate_WarnsAtTheStart(t *testing.T) {
	f := newFixture(t)
	f.clock = f.clock.Add(2 * time.Hour)
	f.renew("second")
	f.Reload()
	require.Equal(t, "second", f.current.Certificates[0].Leaf.Subject.CommonName)
	require.Contains(t, f.log.String(), "the certificate is not valid now")
}

// Clients of an authority that was taken out are refused from then on, also with a session of before.
func TestSource_AuthorityThatIsReplaced_RefusesItsClients(t *testing.T) {
	f := newFixture(t)
	client := f.authority.Client(t, f.authority.Sign(t, "client", time.Hour))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	_, err := f.shown(client)
	require.NoError(t, err)
	other := testcert.NewAuthority(t, "other")
	f.write(f.files.ClientCA, other.PEM)
	_, err = f.shown(client)
	require.Error(t, err)
	client = f.authority.Client(t, other.Sign(t, "client", time.Hour))
	name, err := f.shown(client)
	require.NoError(t, err)
	require.Equal(t, "first", name)
}

func TestSource_ClientWithoutACertificate_IsRefused(t *testing.T) {
	f := newFixture(t)
	_, err := f.shown(f.authority.Client(t))
	require.ErrorContains(t, err, "certificate required")
	_, err = f.shown(f.authority.Client(t, testcert.NewAuthority(t, "other").Sign(t, "client", time.Hour)))
	require.Error(t, err)
	_, err = f.shown(f.authority.Client(t, f.authority.Sign(t, "client", -time.Minute)))
	require.ErrorContains(t, err, "expired")
}
