package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

type certFiles struct {
	Cert     string // the server's certificate, followed by intermediate certificates
	Key      string // its key
	ClientCA string // authorities of clients; "" if clients need no certificate
}

// checkEvery is the minimum time between two checks of the files, which connections trigger.
const checkEvery = time.Second

// certificates serves TLS with certificates from files and rereads changed files. It is safe for concurrent
// use.
//
// Package pemfile of gRPC is no substitute. It reports no error at the start and takes half of a file with
// authorities. It logs a private key that does not match its certificate.
type certificates struct {
	files certFiles
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	current  *tls.Config
	contents [][]byte // of the files, in current; nil forces a new configuration
	looked   time.Time
	failure  string // the last one; it is logged once
}

func openCertificates(files certFiles, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, now: time.Now}
	err := c.read()
	return c, err
}

// serverConfig returns the configuration of a server. Each new connection gets the present certificates.
func (c *certificates) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if since := c.now().Sub(c.looked); since < 0 || since >= checkEvery {
				c.refresh()
			}
			return c.current, nil
		},
	}
}

// reload rereads the files. If they are invalid, the old certificates stay in force.
func (c *certificates) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contents, c.failure = nil, ""
	c.refresh()
}

func (c *certificates) refresh() {
	c.looked = c.now()
	err := c.read()
	if err == nil {
		c.failure = ""
	} else if err.Error() != c.failure {
		c.failure = err.Error()
		c.log.Error("rrl: invalid certificates, the old ones stay in force", "error", err)
	}
}

// read puts the files in force if they have changed and are valid.
func (c *certificates) read() error {
	var contents [][]byte
	for _, file := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		text, err := c.readFile(file)
		if err != nil {
			return err
		}
		contents = append(contents, text)
	}
	if c.contents != nil && slices.EqualFunc(contents, c.contents, bytes.Equal) {
		return nil
	}
	config, err := parseCertificates(c.files, contents)
	if err != nil {
		return err
	}
	now, leaf := c.now(), config.Certificates[0].Leaf
	if c.current != nil && !valid(leaf, now) && valid(c.current.Certificates[0].Leaf, now) {
		return fmt.Errorf("%s is valid from %s to %s, and the old certificate is valid now",
			c.files.Cert, date(leaf.NotBefore), date(leaf.NotAfter))
	}
	c.current, c.contents = config, contents
	c.log.Info("rrl: certificate in force", "file", c.files.Cert,
		"subject", leaf.Subject.String(), "valid_to", date(leaf.NotAfter))
	if !valid(leaf, now) {
		c.log.Warn("rrl: the certificate is not valid now", "file", c.files.Cert,
			"valid_from", date(leaf.NotBefore), "valid_to", date(leaf.NotAfter))
	}
	return nil
}

// readFile reads a file, "" for none. At the start a pipe has a writer. Later, opening it could block forever.
func (c *certificates) readFile(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err == nil && c.current != nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
		return nil, fmt.Errorf("%s is a pipe or a device, which is read only at the start", file)
	}
	return os.ReadFile(file)
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func valid(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && !now.After(cert.NotAfter)
}

// parseCertificates returns the configuration by the contents of the files.
func parseCertificates(files certFiles, contents [][]byte) (*tls.Config, error) {
	chain, key, clientCA := contents[0], contents[1], contents[2]
	if _, err := pemBlocks(files.Cert, chain); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", files.Cert, files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		SessionTicketsDisabled: true, // a resumed session would outlive the client's authority
	}
	if files.ClientCA == "" {
		return config, nil
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	authorities, err := pemBlocks(files.ClientCA, clientCA)
	if err != nil {
		return nil, err
	}
	for i, block := range authorities {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: block %d is a %s, want a CERTIFICATE", files.ClientCA, i+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: block %d: %w", files.ClientCA, i+1, err)
		}
		config.ClientCAs.AddCert(cert)
	}
	return config, nil
}

// pemBlocks reads PEM. Unlike package pem, it rejects a file with an invalid part, which may be half written.
func pemBlocks(file string, text []byte) (all []*pem.Block, err error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		all = append(all, block)
	}
	if began := bytes.Count(text, []byte("-----BEGIN ")); len(all) == 0 || len(all) != began {
		return nil, fmt.Errorf("%s: %d of %d PEM blocks are complete", file, len(all), began)
	}
	return all, nil
}
