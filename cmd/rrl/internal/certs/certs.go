// Package certs serves TLS with certificates from files and rereads changed files.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
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

	mu      sync.Mutex
	current *tls.Config
	seen    []fs.FileInfo // the files of current; nil forces a read
	looked  time.Time
	failure string // the last one; it is logged once
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
	s.seen, s.failure = nil, ""
	s.refresh()
}

// refresh reads the files if they have changed or were invalid.
func (s *Source) refresh() {
	s.looked = s.now()
	if s.seen != nil && slices.EqualFunc(s.seen, s.stat(), same) {
		return
	}
	err := s.read()
	if err == nil {
		s.failure = ""
	} else if s.seen = nil; err.Error() != s.failure {
		s.failure = err.Error()
		s.log.Error("rrl: invalid certificates, the old ones stay in force", "error", err)
	}
}

// read puts the files in force if they are valid.
func (s *Source) read() error {
	seen := s.stat()
	for _, info := range seen {
		// At the start a pipe has a writer. Later, opening it could block forever.
		if s.current != nil && info != nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
			return fmt.Errorf("%s is a pipe or a device, which is read only at the start", info.Name())
		}
	}
	config, err := load(s.files)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(seen, s.stat(), same) {
		return errors.New("the files changed while they were read")
	}
	now, leaf := s.now(), config.Certificates[0].Leaf
	if s.current != nil && !valid(leaf, now) && valid(s.current.Certificates[0].Leaf, now) {
		return fmt.Errorf("%s is valid from %s to %s, and the old certificate is valid now",
			s.files.Cert, date(leaf.NotBefore), date(leaf.NotAfter))
	}
	s.current, s.seen = config, seen
	s.log.Info("rrl: certificate in force", "file", s.files.Cert,
		"subject", leaf.Subject.String(), "valid_to", date(leaf.NotAfter))
	if !valid(leaf, now) {
		s.log.Warn("rrl: the certificate is not valid now", "file", s.files.Cert,
			"valid_from", date(leaf.NotBefore), "valid_to", date(leaf.NotAfter))
	}
	return nil
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func valid(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && !now.After(cert.NotAfter)
}

// stat returns the files' infos, nil for a missing file.
func (s *Source) stat() []fs.FileInfo {
	var all []fs.FileInfo
	for _, file := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		info, err := os.Stat(file)
		if err != nil {
			info = nil
		}
		all = append(all, info)
	}
	return all
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func load(files Files) (*tls.Config, error) {
	chain, err := os.ReadFile(files.Cert)
	if err != nil {
		return nil, err
	}
	if _, err := blocks(files.Cert, chain); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(files.Key)
	if err != nil {
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
	if files.ClientCA != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = authorities(files.ClientCA); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := blocks(file, text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for i, block := range all {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: block %d is a %s, want a CERTIFICATE", file, i+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: block %d: %w", file, i+1, err)
		}
		pool.AddCert(cert)
	}
	return pool, nil
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
