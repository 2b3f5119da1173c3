package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

type certFiles struct {
	Cert     string // the server's certificate, followed by intermediate certificates
	Key      string // its key
	ClientCA string // authorities of clients, read at the start; "" if clients need no certificate
}

// serverTLS returns the configuration of a server. Each new connection gets the present certificate.
func (f certFiles) serverTLS(log *slog.Logger) (*tls.Config, error) {
	c := &certificate{files: f, log: log}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
	if f.ClientCA != "" {
		pem, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no PEM certificate", f.ClientCA)
		}
	}
	return config, c.refresh()
}

// certificate is that of two files, read again once both have changed. It is safe for concurrent use.
type certificate struct {
	files certFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed [2]time.Time // the times of the files, in current
	failure string       // the last one; it is logged once
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil && err.Error() != c.failure {
		c.failure = err.Error()
		c.log.Error("rrl: invalid certificate, the old one stays in force", "error", err)
	}
	return c.current, nil
}

// refresh reads the files if they have changed. After an error it reads them again each time, since one
// file is replaced after the other.
func (c *certificate) refresh() error {
	var changed [2]time.Time
	for i, file := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.files.Cert, c.files.Key, err)
	}
	c.current, c.changed, c.failure = &pair, changed, ""
	until := pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
	c.log.Info("rrl: certificate in force", "file", c.files.Cert, "valid_to", until)
	return nil
}
