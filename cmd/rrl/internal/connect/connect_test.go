package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peers "github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"
)

// A password with a character that ends a part of a URL makes another URL, of which each part can
// hold a part of the password.
func TestOptions_PasswordThatIsNotEscaped_IsNeverPrinted(t *testing.T) {
	for _, url := range []string{
		"redis://alice:12/hidden@127.0.0.1:1", "redis://alice:12/hidden/more@127.0.0.1:1",
		"redis://alice:12#hidden@127.0.0.1:1",
		"redis://hidden:12#x@127.0.0.1:1", "redis://hidden:12?x@127.0.0.1:1", "redis://hidden:12/x@127.0.0.1:1",
		"redis://alice:hidden/12@127.0.0.1:1", "redis://alice:hidden#12@127.0.0.1:1", "redis://alice:hid%xden@127.0.0.1:1",
		"redis://:12?addr=hidden@127.0.0.1:1", "redis:hidden@127.0.0.1:1", "hidden:12@127.0.0.1:1",
		"http://alice:12/hidden@127.0.0.1",
		"unix://hidden:12/x@/redis.sock", "unix://alice:12/hidden@/redis.sock",
		"//alice:hidden@127.0.0.1:1", "redis://127.0.0.1:1/hidden",
		"redis://127.0.0.1:1?db=hidden", "rediss://127.0.0.1:1?skip_verify=hidden", "redis://127.0.0.1:1?dial_timeout=hidden",
	} {
		_, err := Open(context.Background(), Options{URL: url, Timeout: time.Second})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hidden", url)
		require.NotContains(t, err.Error(), "hid%xden", url)
		require.Contains(t, err.Error(), "--redis (or REDIS_URL)", url)
	}
}

func TestOptions_PasswordThatIsEscaped_Connects(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("alice", "a/b#c?d@e%")
	for _, url := range []string{
		"redis://alice:a%2Fb%23c%3Fd%40e%25@" + server.Addr(), "redis://alice:a%2Fb%23c%3Fd@e%25@" + server.Addr() + "/1",
	} {
		redis, err := Open(context.Background(), Options{URL: url, Timeout: time.Second})
		require.NoError(t, err, url)
		redis.Close()
	}
}

// Files of certificates are renewed while rrl serve runs.
func TestOptions_ClientCertificate_IsReadForEachConnection(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	folder := t.TempDir()
	o := Options{
		URL: "rediss://127.0.0.1:1", Cert: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key"),
	}
	write := func(file, kind string, der []byte, err error) {
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	issue := func(serial int64) {
		template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		write(o.Cert, "CERTIFICATE", der, err)
	}
	issue(1)
	_, err = o.client()
	require.ErrorContains(t, err, "--tls-cert "+o.Cert)
	der, err := x509.MarshalECPrivateKey(key)
	write(o.Key, "EC PRIVATE KEY", der, err)
	option, err := o.client()
	require.NoError(t, err)
	for serial := range int64(3) {
		issue(serial)
		pair, err := option.TLSConfig.GetClientCertificate(nil)
		require.NoError(t, err)
		require.Equal(t, serial, pair.Leaf.SerialNumber.Int64())
	}
}

// Files of authorities are replaced while rrl serve runs.
func TestOptions_Authorities_AreReadForEachConnection(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	o := Options{URL: "rediss://" + server.Listener.Addr().String(), CA: filepath.Join(t.TempDir(), "ca.pem")}
	_, err := o.client()
	require.ErrorIs(t, err, os.ErrNotExist)
	write := func(der []byte) {
		require.NoError(t, os.WriteFile(o.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	other, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	write(other)
	option, err := o.client()
	require.NoError(t, err)
	dial := func() error {
		conn, err := option.DialCtxFn(t.Context(), server.Listener.Addr().String(), new(net.Dialer), option.TLSConfig)
		if err == nil {
			conn.Close()
		}
		return err
	}
	require.ErrorAs(t, dial(), new(x509.UnknownAuthorityError))
	write(server.Certificate().Raw)
	require.NoError(t, dial())
	require.NoError(t, os.Remove(o.CA))
	require.ErrorContains(t, dial(), "--tls-ca")
}

// TestOpen_MasterBecomesReplica_ServiceConnectsAgain: also one that had to wait for Redis. A command does not.
func TestOpen_MasterBecomesReplica_ServiceConnectsAgain(t *testing.T) {
	for name, serves := range map[string]bool{"service": true, "late service": true, "command": false} {
		server := miniredis.RunT(t)
		o := Options{URL: "redis://" + server.Addr(), Timeout: time.Second, Serves: serves}
		redis, err := Open(t.Context(), o)
		require.NoError(t, err)
		if name == "late service" {
			redis.Close()
			redis = o.Late(errors.New("away"))
		}
		set := func() error { return redis.Do(t.Context(), redis.B().Set().Key("k").Value("v").Build()).Error() }
		require.Eventually(t, func() bool { return set() == nil }, 10*time.Second, time.Millisecond)
		before := server.TotalConnectionCount()
		server.Server().SetPreHook(func(peer *peers.Peer, command string, _ ...string) bool {
			if command == "SET" {
				peer.WriteError("READONLY You can't write against a read only replica.")
			}
			return command == "SET"
		})
		require.ErrorContains(t, set(), "READONLY", name)
		if serves {
			require.Eventually(t, func() bool { return server.TotalConnectionCount() > before }, 10*time.Second,
				time.Millisecond)
		} else {
			plain, err := open(t.Context(), o)
			require.NoError(t, err)
			require.IsType(t, plain.Client, redis.Client, "a client that does not dial again")
			plain.Close()
		}
		redis.Close()
	}
}

func TestExplain_ServerErrors_HaveAdvice(t *testing.T) {
	server := miniredis.RunT(t)
	redis, err := Open(context.Background(), Options{URL: "redis://" + server.Addr(), Timeout: time.Second})
	require.NoError(t, err)
	defer redis.Close()
	for said, want := range map[string]string{
		"READONLY You can't write against a read only replica.":         "is a replica and rejects changes: name its master by --redis",
		"NOPERM this user has no permissions to run the 'scan' command": "denies this user the command (this user has no permissions to run the 'scan' command): grant the right by ACL SETUSER",
		"LOADING Redis is loading the dataset in memory":                "is not ready (LOADING Redis is loading the dataset in memory): retry later",
		"CLUSTERDOWN The cluster is down":                               "is down (CLUSTERDOWN The cluster is down): CLUSTER NODES shows which node is missing",
		"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface.": "rejects other hosts (protected mode): set a password (requirepass), or protected-mode no",
		"ERR something new": "something new",
	} {
		server.SetError(said)
		err := redis.Explain(redis.Do(context.Background(), redis.B().Get().Key("x").Build()).Error())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, server.Addr())
	}
	err = redis.Explain(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH})
	require.ErrorContains(t, err, server.Addr()+" cannot be reached")
}
