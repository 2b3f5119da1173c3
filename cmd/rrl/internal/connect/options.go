// Package connect connects to a server, a Sentinel set-up or a Redis Cluster with the options of the
// command line, and explains errors.
package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Options has the address of a Redis and credentials. The zero value is the Redis on localhost:6379.
type Options struct {
	URL                  string        // redis://, rediss:// or unix://, with ?addr=HOST:PORT and ?master_set=NAME
	PasswordFile         string        // a file with the password, instead of one in the URL
	SentinelPasswordFile string        // the same for the sentinels themselves
	CA, Cert, Key        string        // PEM files, for rediss://
	Timeout              time.Duration // of connecting and of each reply
	Serves               bool          // many requests at once; otherwise a few calls of a tool
}

// DefaultURL is used if there is no other URL.
const DefaultURL = "redis://localhost:6379"

func (o Options) client() (rueidis.ClientOption, error) {
	text := o.URL
	if text == "" {
		text = DefaultURL
	}
	option, err := parse(text)
	if err != nil {
		return option, err
	}
	if o.PasswordFile != "" {
		if option.Password, err = secret("--password-file", o.PasswordFile); err != nil {
			return option, err
		}
	}
	if o.SentinelPasswordFile != "" {
		if option.Sentinel.Password, err = secret("--sentinel-password-file", o.SentinelPasswordFile); err != nil {
			return option, err
		}
	}
	if err := o.trust(&option); err != nil {
		return option, err
	}
	option.Sentinel.TLSConfig = option.TLSConfig
	option.Dialer.Timeout, option.ConnWriteTimeout = o.Timeout, o.Timeout
	// Users need no right for CLIENT, and the tool reads fresh values.
	option.DisableCache, option.ClientSetInfo = true, rueidis.DisableClientSetInfo
	option.ClusterOption.MaxMovedRedirections = 16 // nodes that disagree redirect forever
	if !o.Serves {
		option.DisableRetry, option.PipelineMultiplex = true, -1
	}
	return option, nil
}

// parse parses a URL. Its errors contain no part of the URL, since any part may belong to a password.
func parse(text string) (rueidis.ClientOption, error) {
	const want = "want redis://, rediss:// (TLS) or unix://, as in redis://USER@HOST:6379/0"
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || misplaced(text, parsed) {
		return rueidis.ClientOption{}, fmt.Errorf("--redis (or REDIS_URL) is not a URL: %s; "+
			"escape special characters of the password as %%XX (/ is %%2F, # is %%23, ? is %%3F), "+
			"or put the password into a file for --password-file", want)
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		reason, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "redis: "), ":") // the rest quotes the URL
		return option, fmt.Errorf("--redis (or REDIS_URL): %s; %s", reason, want)
	}
	return option, nil
}

// misplaced reports whether a part of a URL after its host looks like the end of a password.
func misplaced(text string, parsed *url.URL) bool {
	if parsed.Scheme == "unix" {
		return parsed.Host != "" // it has no host; a path may contain @
	}
	return strings.Contains(text, "#") || strings.Contains(parsed.Path+parsed.RawQuery, "@")
}

func (o Options) trust(option *rueidis.ClientOption) error {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		return nil
	}
	if option.TLSConfig == nil {
		return errors.New("--tls-ca, --tls-cert and --tls-key are for rediss:// URLs: write rediss:// instead of redis://")
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		option.TLSConfig.RootCAs = x509.NewCertPool()
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--tls-ca: %s has no PEM certificate", o.CA)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("--tls-cert and --tls-key go together: give both or none")
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", o.Cert, o.Key, err)
		}
		option.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// secret reads a file with one line.
func secret(flag, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s: %s does not have exactly one line with a password", flag, file)
	}
	return line, nil
}
