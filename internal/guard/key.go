package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/outage"
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

// JoinKeys joins several keys into one. Different keys stay different.
func JoinKeys(keys ...string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = joinEscapes.Replace(key)
	}
	return strings.Join(escaped, "|")
}

// CombineKeys joins n keys, of which key returns each. If one is unknown or empty, that is an error,
// whose text begins with the caller.
func CombineKeys(caller string, n int, key func(i int) (string, error)) (string, error) {
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
	return JoinKeys(keys...), nil
}

// Each returns a function that opens the limiter of a key, with a description of the policies that
// all keys share. It panics if every call would fail, and sends nothing to Redis. An empty key is an
// error, so that requests never share a limiter by accident. Texts begin with the call and its name.
func Each(call string, client *rratelimiter.Client, name string, policies []limit.Policy,
) func(key string) (outage.Limiter, error) {
	d := Describe(policies...)
	limiters := limit.NewKeyed(client, name, d.Policies...)
	if err := outage.CheckLimiter(limiters.Limiter("key")); err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
	return func(key string) (outage.Limiter, error) {
		if key == "" {
			return nil, fmt.Errorf("%s: the key is empty", call)
		}
		return describedLimiter{limiters.Limiter(Key(key)), d}, nil
	}
}

// EachRedisson returns a function that opens the limiter of a key in Redisson's layout, whose name is
// the prefix and the key. A rate without a KeepAlive is invalid, since Redis would keep every key for
// ever. Otherwise it is as Each.
func EachRedisson(call string, client *rratelimiter.Client, prefix string, rate rratelimiter.Rate,
) func(key string) (outage.Limiter, error) {
	initial := rratelimiter.InitialRate(rate)
	var err error
	switch {
	case client == nil:
		err = rratelimiter.ErrNoClient
	case prefix == "":
		err = fmt.Errorf("%w: the prefix is empty", rratelimiter.ErrInvalidName)
	case rate.KeepAlive == 0:
		err = fmt.Errorf("%w: without a KeepAlive, the limiters of all keys stay for ever", rratelimiter.ErrInvalidRate)
	default:
		err = outage.CheckLimiter(client.Limiter(prefix+"key", initial))
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
	return func(key string) (outage.Limiter, error) {
		if key == "" {
			return nil, fmt.Errorf("%s: the key is empty", call)
		}
		if len(key) > longestRedissonKey {
			return nil, Invalidf("%s: the key has %d bytes, want at most %d", call, len(key), longestRedissonKey)
		}
		return client.Limiter(prefix+key, initial), nil
	}
}

// longestRedissonKey is the largest number of bytes of a key in Redisson's layout, which has no hash in place
// of a long key. A client may send a key of a MB, which Redis would keep.
const longestRedissonKey = 8 << 10

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

// Exempt reports whether a full method of gRPC, as "/grpc.health.v1.Health/Check", is limited only on
// demand: health checks and reflection.
func Exempt(method string) bool {
	service := strings.TrimPrefix(method, "/")
	service = service[:max(0, strings.LastIndexByte(service, '/'))]
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
