package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
func newAuthority(t testing.TB, name string) *certAuthority {
	t.Helper()
	a := new(certAuthority)
	a.cert, a.key = a.issue(t, name, time.Hour)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return a
}

// issue creates a certificate for servers and clients on 127.0.0.1 and localhost. The first one is the authority's.
func (a *certAuthority) issue(t testing.TB, name string, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(valid),
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

// sign creates a certificate that is valid for the given time. A negative time creates an expired one.
func (a *certAuthority) sign(t testing.TB, name string, valid time.Duration) keyPair {
	t.Helper()
	cert, key := a.issue(t, name, valid)
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
