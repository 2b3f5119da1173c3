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
	plain := true
	for i := 0; plain && i < len(key); i++ {
		plain = isPlain(key[i])
	}
	if plain {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; isPlain(c) {
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

func isPlain(c byte) bool { return c > ' ' && c < 0x7f && c != '{' && c != '}' && c != '%' }

// Hash returns a key that hides another one: the first 128 bits of its SHA-256.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Join joins several keys into one. Different keys stay different.
func Join(keys ...string) string {
	length := len(keys)
	for _, key := range keys {
		length += len(key)
	}
	var b strings.Builder
	b.Grow(length)
	for i, key := range keys {
		if i > 0 {
			b.WriteByte('|')
		}
		for j := range len(key) {
			if key[j] == '|' || key[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(key[j])
		}
	}
	return b.String()
}
