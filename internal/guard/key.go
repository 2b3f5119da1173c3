package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
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

// Combine joins n keys, of which key returns each. If one is unknown or empty, that is an error,
// whose text begins with the caller.
func Combine(caller string, n int, key func(i int) (string, error)) (string, error) {
	keys := make([]string, n)
	for i := range keys {
		var err error
		if keys[i], err = key(i); err != nil {
			return "", err
		}
		if keys[i] == "" {
			return "", fmt.Errorf("%s: key %d is empty", caller, i+1)
		}
	}
	return Join(keys...), nil
}
