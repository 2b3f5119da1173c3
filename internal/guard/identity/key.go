package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Name returns the name of the limiter of a key, under a name that all keys of a middleware share.
func Name(shared, key string) string { return shared + ":" + Key(key) }

// Key encodes a key for names of limiters. Different keys stay different. The result has no braces
// and no control bytes, which are percent-encoded. It has at most 128 bytes: a longer key is
// replaced by its SHA-256.
func Key(key string) string {
	if len(key) > longestKey {
		return hashed(key)
	}
	if !strings.ContainsFunc(key, isEscaped) {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; !isEscaped(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > longestKey {
		return hashed(key)
	}
	return b.String()
}

// hashed returns the replacement of a long key.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "%sha256:" + hex.EncodeToString(sum[:]) // no escape begins with an s
}

const longestKey = 128

func isEscaped(r rune) bool { return r <= ' ' || r >= 0x7f || r == '{' || r == '}' || r == '%' }

// Hash returns a key that hides another one: the first 128 bits of its SHA-256.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

var joinEscapes = strings.NewReplacer(`|`, `\|`, `\`, `\\`)

// Join joins several keys into one. Different keys stay different.
func Join(keys ...string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = joinEscapes.Replace(key)
	}
	return strings.Join(escaped, "|")
}

// Combined returns a function that joins the keys of a request. If one is unknown or empty, that is an error, whose
// text begins with the call.
func Combined[R any, K ~func(R) (string, error)](call string, keys []K) func(R) (string, error) {
	return func(r R) (string, error) {
		texts := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if texts[i], err = key(r); err != nil {
				return "", err
			}
			if texts[i] == "" {
				return "", fmt.Errorf("%s: key %d is empty", call, i+1)
			}
		}
		return Join(texts...), nil
	}
}

// Invalidf returns an error that describes what a request lacks, and that is [limit.ErrInvalidRequest].
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), ""}
}

// Lackingf is Invalidf for a request that lacks a header or metadata, which its client may learn.
func Lackingf(field, format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), field}
}

// LackOf returns the header or metadata that a request lacks, "" if the error is about none.
func LackOf(err error) string {
	var invalid *invalidError
	if errors.As(err, &invalid) {
		return invalid.field
	}
	return ""
}

type invalidError struct {
	text  string
	field string // that the request lacks; not its value
}

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return limit.ErrInvalidRequest }
