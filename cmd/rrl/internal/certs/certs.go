// Package certs serves TLS with certificates from files and rereads changed files.
//
// Package pemfile of gRPC is no substitute: it reports no error at the start, takes half of a file with
// authorities, and logs a private key that does not match its certificate.
package certs

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

// Files are PEM files.
type Files struct {
	Cert     string // the server's certificate, followed by intermediate certificates
	Key      string // its key
	ClientCA string // authorities of clients; "" if clients need no certificate
}

// every is the minimum time between two checks of the files, which connections trigger.
const every = time.Second

// Source has the latest valid content of the files. It is safe for concurrent use.
type Source struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	current  *tls.Config
	contents [][]byte // of the files, in current; nil forces a new configuration
	looked   time.Time
	failure  string // the last one; it is logged once
}

// Open reads the files.
func Open(files Files, log *slog.Logger) (*Source, error) {
	s := &Source{files: files, log: log, now: time.Now}
	err := s.read()
	return s, err
}

// Config returns the configuration of a server. Each new connection gets the present certificates.
func (s *Source) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if since := s.now().Sub(s.looked); since < 0 || since >= every {
				s.refresh()
			}
			return s.current, nil
		},
	}
}

// Reload rereads the files. If they are invalid, the old certificates stay in force.
func (s *Source) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contents, s.failure = nil, ""
	s.refresh()
}

// refresh reads the files and logs a failure once.
func (s *Source) refresh() {
	s.looked = s.now()
	err := s.read()
	if err == nil {
		s.failure = ""
	} else if err.Error() != s.failure {
		s.failure = err.Error()
		s.log.Error("rrl: invalid certificates, the old ones stay in force", "error", err)
	}
}

// read puts the files in force if they have changed and are valid.
func (s *Source) read() error {
	var contents [][]byte
	for _, file := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		text, err := s.readFile(file)
		if err != nil {
			return err
		}
		contents = append(contents, text)
	}
	if s.contents != nil && slices.EqualFunc(contents, s.contents, bytes.Equal) {
		return nil
	}
	config, err := parse(s.files, contents)
	if err != nil {
		return err
	}
	now, leaf := s.now(), config.Certificates[0].Leaf
	if s.current != nil && !valid(leaf, now) && valid(s.current.Certificates[0].Leaf, now) {
		return fmt.Errorf("%s is valid from %s to %s, and the old certificate is valid now",
			s.files.Cert, date(leaf.NotBefore), date(leaf.NotAfter))
	}
	s.current, s.contents = config, contents
	s.log.Info("rrl: certificate in force", "file", s.files.Cert,
		"subject", leaf.Subject.String(), "valid_to", date(leaf.NotAfter))
	if !valid(leaf, now) {
		s.log.Warn("rrl: the certificate is not valid now", "file", s.files.Cert,
			"valid_from", date(leaf.NotBefore), "valid_to", date(leaf.NotAfter))
	}
	return nil
}

// readFile reads a file, "" for none. At the start a pipe has a writer. Later, opening it could block forever.
func (s *Source) readFile(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err == nil && s.current != nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
		return nil, fmt.Errorf("%s is a pipe or a device, which is read only at the start", file)
	}
	return os.ReadFile(file)
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func valid(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && !now.After(cert.NotAfter)
}

// parse returns the configuration by the contents of the files.
func parse(files Files, contents [][]byte) (*tls.Config, error) {
	chain, key, clientCA := contents[0], contents[1], contents[2]
	if _, err := blocks(files.Cert, chain); err != nil {
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
	authorities, err := blocks(files.ClientCA, clientCA)
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

// blocks reads PEM. Unlike package pem, it rejects a file with an invalid part, which may be half written.
func blocks(file string, text []byte) (all []*pem.Block, err error) {
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
