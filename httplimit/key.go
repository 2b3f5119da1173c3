package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Key maps a request to the key that it is limited by. It returns an error or an empty key if the
// key is unknown.
//
// Use only values that were checked before: a client that can choose its key can use the permits of
// other clients, or any number of limiters.
type Key func(*http.Request) (string, error)

// ByIP returns the Key of the client's address: an IPv4 address, or the /64 of an IPv6 address. It
// is the peer's address, and headers are ignored. If the peer is in one of the trusted ranges, the
// client is read from X-Forwarded-For, see [Address]. An Address can use other headers and other
// ranges.
//
// ByIP panics if a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	guard.MustTrust("httplimit: ByIP", trusted)
	return Address{Trusted: trusted}.Key
}

// ByHeader returns the Key of a header's value, for instance an API key. A request without the
// header, with several values or with an empty one has no key and is [limit.ErrInvalidRequest]. Spaces
// and tabs around the value are dropped, since they are no part of it (RFC 9110, 5.5). Clients
// choose their headers: put a check of the value in front of it.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (key string, err error) {
		values := r.Header[name]
		if len(values) == 1 {
			key = strings.Trim(values[0], " \t")
		}
		if key == "" {
			err = guard.Lackingf("header "+name, "httplimit: header %s: want one value that is not empty: got %d values", name,
				len(values))
		}
		return key, err
	}
}

// ByPathValue returns the Key of a wildcard in the path, see [http.Request.PathValue]. The
// middleware has to be behind the router. A request without the wildcard has no key.
func ByPathValue(name string) Key {
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && strings.Contains(r.Pattern, "{"+name+"...}") {
			return "", guard.Invalidf("httplimit: path wildcard %q: the value is empty", name)
		}
		if value == "" {
			return "", fmt.Errorf("httplimit: path wildcard %q: the pattern has none: put the middleware behind the router",
				name)
		}
		return value, nil
	}
}

// Hashed replaces a key by its hash: the first 128 bits of its SHA-256, in hexadecimal. Then names
// of limiters, keys of Redis, outcomes and reports do not show the key. The hash does not hide keys
// that can be guessed, such as mail addresses.
func Hashed(key Key) Key {
	return func(r *http.Request) (string, error) {
		text, err := key(r)
		if err != nil || text == "" {
			return "", err
		}
		return guard.Hash(text), nil
	}
}

// Combined joins several keys: requests share a limiter if all their keys are equal. If one key is
// unknown, the combined key is unknown.
func Combined(keys ...Key) Key {
	return func(r *http.Request) (string, error) {
		return guard.Combine("httplimit: Combined", len(keys), func(i int) (string, error) { return keys[i](r) })
	}
}
