package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Explain adds the address and advice to the error of a call. It returns errors with advice unchanged.
func (r *Redis) Explain(err error) error {
	where := r.Where
	var operation *net.OpError
	if r.cluster() && errors.As(err, &operation) && operation.Addr != nil {
		where = operation.Addr.String() + ", a node of the cluster of " + r.Where
	} else if r.cluster() && isTimeout(err) {
		where = "a node of the cluster of " + r.Where
	}
	return explain(err, where, "")
}

// Explain is like Redis.Explain for one node.
func (n Node) Explain(err error) error { return explain(err, n.Where, "") }

// unreachableError is the error of a server that may answer later.
type unreachableError struct{ error }

func (a unreachableError) Unwrap() error { return a.error }

func unreachablef(format string, values ...any) error {
	return unreachableError{fmt.Errorf(format, values...)}
}

// IsUnreachable reports whether an error may pass: the server does not answer, or is not ready. A rejection by a
// server does not pass.
func IsUnreachable(err error) bool {
	var a unreachableError
	return errors.As(err, &a)
}

// clusterError is the error of a whole cluster.
type clusterError struct{ error }

// IsUnreached reports whether one server, and not the whole cluster, does not answer or is not ready.
func IsUnreached(err error) bool {
	var d clusterError
	return IsUnreachable(err) && !errors.As(err, &d)
}

func describeUser(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

func explain(err error, where, name string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if said, ok := rueidis.IsRedisErr(err); ok {
		return explainSaid(said, err, where, name)
	}
	var (
		unknown   x509.UnknownAuthorityError
		hostname  x509.HostnameError
		expired   x509.CertificateInvalidError
		noTLS     tls.RecordHeaderError
		dns       *net.DNSError
		operation *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%s has a certificate of an untrusted authority: name its PEM file by --tls-ca (%w)", where, err)
	case errors.As(err, &hostname), errors.As(err, &expired):
		return fmt.Errorf("%s has an invalid certificate: %w", where, err)
	case errors.As(err, &noTLS):
		return fmt.Errorf("%s does not speak TLS: write redis:// instead of rediss://, or give its TLS port", where)
	case errors.As(err, &dns):
		return unreachablef("%s: no host %q: check --redis or REDIS_URL", where, dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return unreachablef("no Redis at %s (connection refused): start it, or name another one by --redis URL or REDIS_URL; rrl demo needs none", where)
	case isTimeout(err):
		return unreachablef("%s does not answer in time: check it, or raise --timeout", where)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return unreachablef("%s closed the connection: see its log (a server with TLS closes connections of redis:// URLs)", where)
	case errors.Is(err, rueidis.ErrNoAddr):
		return unreachablef("%s does not know this master: check master_set and SENTINEL MASTERS", where)
	case errors.As(err, &operation):
		return unreachablef("%s cannot be reached: %w", where, err)
	case redisx.Away(err):
		return unreachablef("%s is not ready (%w): retry later", where, err)
	}
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// explainSentinel is like explain for sentinels. The error does not say whether the sentinels or the master
// require the password.
func explainSentinel(err error, where, name string) error {
	explained := explain(err, where, name)
	said, ok := rueidis.IsRedisErr(err)
	switch {
	case !ok:
		return explained
	case strings.HasPrefix(said.Error(), "NOAUTH"), strings.HasPrefix(said.Error(), "WRONGPASS"):
		return fmt.Errorf("%w; --sentinel-password-file is for the password of the sentinels", explained)
	case strings.Contains(said.Error(), "No such master"):
		return fmt.Errorf("%s does not know this master: check master_set and SENTINEL MASTERS", where)
	}
	return explained
}

// explainSaid explains an error reply of a server.
func explainSaid(said *rueidis.RedisError, err error, where, name string) error {
	text := said.Error()
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "WRONGPASS":
		return fmt.Errorf("%s rejects user %q: wrong name or password: check --redis, REDIS_URL or --password-file", where,
			describeUser(name))
	case "NOAUTH":
		return fmt.Errorf("%s requires a password: put it into the URL (redis://:PASSWORD@HOST:PORT) or into a file for --password-file", where)
	case "NOPERM":
		return fmt.Errorf("%s denies this user the command (%s): grant the right by ACL SETUSER", where,
			strings.TrimSpace(strings.TrimPrefix(text, "NOPERM")))
	case "DENIED":
		return fmt.Errorf("%s rejects other hosts (protected mode): set a password (requirepass), or protected-mode no",
			where)
	case "READONLY":
		return fmt.Errorf("%s is a replica and rejects changes: name its master by --redis", where)
	case "CLUSTERDOWN":
		return unreachableError{clusterError{fmt.Errorf("the cluster of %s is down (%s): CLUSTER NODES shows which node is missing",
			where, text)}}
	}
	if redisx.Away(err) {
		return unreachablef("%s is not ready (%s): retry later", where, text)
	}
	if strings.Contains(text, "executing the script can't run this command") {
		return fmt.Errorf("%s denies this user a command of the script: grant the right by ACL SETUSER", where)
	}
	if strings.Contains(text, "SELECT is not allowed in cluster mode") {
		return fmt.Errorf("%s is a cluster, which has only database 0: remove the number after the / from the URL", where)
	}
	if strings.Contains(text, "without any password configured") {
		return fmt.Errorf("%s has no password, but --redis has one: remove it", where)
	}
	return fmt.Errorf("%s: %w", where, err)
}
