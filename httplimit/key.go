package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Key tells which requests count together. An error, or an empty key, says that it cannot be told.
//
// Whoever chooses the key chooses whose permits are used: a client that can set it at will has as many limiters as it likes. So of
// what a request says of itself only that counts which somebody has checked.
type Key func(*http.Request) (string, error)

// ByIP is the address of the client, or for IPv6 its /64. It is the peer's, whatever a header says; where the peer is in one of
// the trusted ranges it is what X-Forwarded-For says, as [Address] reads it. Address has other headers and other ranges.
//
// ByIP panics where a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	for _, network := range trusted {
		if !network.IsValid() {
			panic("httplimit: ByIP: a trusted range is the zero Prefix")
		}
	}
	return Address{Trusted: trusted}.Key
}

// ByHeader is the value of a header, an API key for instance. A request without it, or with several, has no key and is
// [ErrInvalidRequest]. Clients write headers as they like: use it behind what checks the value.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[name]
		if len(values) != 1 || strings.TrimSpace(values[0]) == "" {
			return "", guard.Invalidf("httplimit: %d values of the header %s, want one that is not empty", len(values), name)
		}
		return strings.TrimSpace(values[0]), nil
	}
}

// ByPathValue is the part of the path that a wildcard of the pattern matched, see [http.Request.PathValue]. The middleware has to
// stand behind the router then. A request without it has no key.
func ByPathValue(name string) Key {
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && strings.Contains(r.Pattern, "{"+name+"...}") {
			return "", guard.Invalidf("httplimit: the wildcard %q of the path is empty", name)
		}
		if value == "" {
			return "", fmt.Errorf("httplimit: the path has no %q, put the middleware behind the router whose pattern has it", name)
		}
		return value, nil
	}
}

// Hashed is the hash of a key in its place, an API key's for instance: the first 128 bits of its SHA-256, in
// hexadecimal. Names of limiters, and so keys of Redis, outcomes and reports, do not show the key then. A key that
// can be guessed, as a mail address can, can still be found by its hash.
func Hashed(key Key) Key {
	return func(r *http.Request) (string, error) {
		text, err := key(r)
		if err != nil || text == "" {
			return "", err
		}
		return guard.Hash(text), nil
	}
}

// Combined is several keys at once: requests count together that agree in all of them. Where one cannot be told, all cannot.
func Combined(keys ...Key) Key {
	return func(r *http.Request) (string, error) {
		texts := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if texts[i], err = key(r); err != nil {
				return "", err
			}
			if texts[i] == "" {
				return "", fmt.Errorf("httplimit: key %d of the request is empty", i+1)
			}
		}
		return guard.Join(texts...), nil
	}
}
