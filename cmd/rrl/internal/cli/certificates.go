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

// certificates serves a certificate from files, and a new one once both files have it. It is safe for
// concurrent use.
type certificates struct {
	files certFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]fileVersion // of the files, in current
	failure string         // the last one; it is logged once
}

// fileVersion identifies the contents of a file.
type fileVersion struct {
	changed time.Time
	size    int64
}

// serverTLS returns the configuration of a server. Each new connection gets the present certificate.
func (f certFiles) serverTLS(log *slog.Logger) (*tls.Config, error) {
	c := &certificates{files: f, log: log}
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

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.refresh()
	if err != nil && err.Error() != c.failure {
		c.failure = err.Error()
		c.log.Error("rrl: invalid certificate, the old one stays in force", "error", err)
	}
	return c.current, nil
}

// refresh reads the files if they have changed. After an error it reads them again each time, since one
// file is replaced after the other.
func (c *certificates) refresh() error {
	var now [2]fileVersion
	for i, file := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", file) // opening a pipe could block for ever
		}
		now[i] = fileVersion{info.ModTime(), info.Size()}
	}
	if now == c.read {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.files.Cert, c.files.Key, err)
	}
	c.current, c.read, c.failure = &pair, now, ""
	c.log.Info("rrl: certificate in force", "file", c.files.Cert, "subject", pair.Leaf.Subject.String(),
		"valid_to", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return nil
}
