package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Name returns the name of the limiter of a key, under a name that all keys of a middleware share.
func Name(shared, key string) string { return shared + ":" + Key(key) }

// Key returns a key as the names of limiters contain it. Different keys stay different. It has no
// braces and no control bytes, which are percent-encoded, and at most 128 bytes: a long key is
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

// hashed returns what stands for a long key.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "%sha256:" + hex.EncodeToString(sum[:]) // no escape begins with an s
}

const longestKey = 128

func isPlain(c byte) bool { return c > ' ' && c < 0x7f && c != '{' && c != '}' && c != '%' }

// Hash is a key that stands for another and does not show it: the first 128 bits of its SHA-256.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Join makes one key of several. Different ones give different keys.
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
