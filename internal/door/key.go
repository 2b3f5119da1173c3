package door

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Name is the name of the limiter of a key, under a name that all keys of a door share. Different keys have different names. What
// clients can put into a key changes no cluster slot, since braces are written as %7B and %7D, and a name is as short as 200 bytes
// and what they share, since a long key is told by its SHA-256.
func Name(shared, key string) string {
	if len(key) > longestKey {
		return hashed(shared, key)
	}
	plain := true
	for i := 0; plain && i < len(key); i++ {
		plain = isPlain(key[i])
	}
	if plain {
		return shared + ":" + key
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
		return hashed(shared, key)
	}
	return shared + ":" + b.String()
}

// hashed is the name of a long key.
func hashed(shared, key string) string {
	sum := sha256.Sum256([]byte(key))
	return shared + ":%sha256:" + hex.EncodeToString(sum[:]) // no escape begins with an s
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
