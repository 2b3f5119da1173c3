package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Servers choose the form of RemoteAddr.
func TestByIP_RemoteAddr_HasAnyForm(t *testing.T) {
	for peer, want := range map[string]string{
		"198.51.100.1": "198.51.100.1", "198.51.100.1:80": "198.51.100.1", "": "", "@": "", "example.org:80": "",
	} {
		got, err := httplimit.ByIP()(&http.Request{RemoteAddr: peer})
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil)
	}
	for _, peer := range []string{"[64:ff9b::c633:6401]:80", "[::ffff:0:198.51.100.1]:80", "[::ffff:198.51.100.1]:80"} {
		client, err := httplimit.Address{}.Client(&http.Request{RemoteAddr: peer})
		require.NoError(t, err)
		assert.Equal(t, "198.51.100.1", client.String(), peer)
	}
	// A client can give its unix socket any name.
	unix := &net.UnixAddr{Name: "server", Net: "unix"}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, unix)
	_, err := httplimit.ByIP()(request().WithContext(ctx))
	assert.ErrorContains(t, err, "unix socket")
}

// The peers of a unix socket are proxies, and those of TCP are not.
func TestUnixSocket_Trusted_HeaderNamesTheClient(t *testing.T) {
	key := httplimit.ByIP(httplimit.UnixSocket())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := key(r)
		assert.Equal(t, client == "", err != nil)
		fmt.Fprint(w, client)
	})}
	defer server.Close()
	for network, want := range map[string]map[string]string{
		"unix": {"": "", "203.0.113.9": "203.0.113.9", "1.1.1.1, 203.0.113.9": "203.0.113.9", "::": ""},
		"tcp":  {"": "127.0.0.1", "203.0.113.9": "127.0.0.1"},
	} {
		at := map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"}[network]
		listener, err := net.Listen(network, at)
		require.NoError(t, err)
		go func() { _ = server.Serve(listener) }()
		for header, want := range want {
			conn, err := net.Dial(network, listener.Addr().String())
			require.NoError(t, err)
			response := exchange(t, conn, "GET / HTTP/1.1\nHost: server\nX-Forwarded-For: "+header+"\n")
			assert.True(t, strings.HasSuffix(response, "\n\n"+want), "%s %q: %s", network, header, response)
		}
	}
}

// FuzzBehindAProxy checks that only the part of a header counts that the proxy appends.
func FuzzBehindAProxy(f *testing.F) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Add("1.1.1.1, garbage", `for="1.1.1.1, for=2.2.2.2`)
	f.Add(" , 10.0.0.9", `for=unknown;host="a\", for=2.2.2.2"`)
	f.Fuzz(func(t *testing.T, forwardedFor, forwarded string) {
		for header, values := range map[string][]string{
			"X-Forwarded-For": {forwardedFor + ", 203.0.113.9", "10.0.0.7"},
			"Forwarded":       {forwarded + `, for="203.0.113.9:4711";proto=https`, `for=10.0.0.7;host="a, \"b"`},
		} {
			r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: values}}
			got, err := httplimit.Address{Trusted: proxies, Header: header}.Key(r)
			if got != "203.0.113.9" || err != nil {
				t.Errorf("%s: %q is %q, %v", header, values, got, err)
			}
		}
	})
}

// The contract has keys by headers and addresses.
func TestKey_Request_GivesTextOrError(t *testing.T) {
	r := request()
	r.Header.Set("X-Key", " a ")
	r.SetPathValue("id", "7|8")
	r.Pattern = "/{id}/{rest...}"
	byKey := httplimit.ByHeader("X-Key")
	none := func(*http.Request) (string, error) { return "", nil }
	fails := func(*http.Request) (string, error) { return "x", fmt.Errorf("no") }
	for name, c := range map[string]struct {
		key     httplimit.Key
		want    string
		invalid bool
	}{
		"a hashed header":     {httplimit.Hashed(byKey), "ca978112ca1bbdcafac231b39a23dc4d", false},
		"a hash of nothing":   {httplimit.Hashed(none), "", false},
		"a hash of none":      {httplimit.Hashed(httplimit.ByHeader("X-None")), "", true},
		"a path value":        {httplimit.ByPathValue("id"), "7|8", false},
		"no path value":       {httplimit.ByPathValue("name"), "", false},
		"an empty wildcard":   {httplimit.ByPathValue("rest"), "", true},
		"combined":            {httplimit.Combined(byKey, httplimit.ByPathValue("id")), `a|7\|8`, false},
		"combined, no header": {httplimit.Combined(httplimit.ByPathValue("id"), httplimit.ByHeader("X-None")), "", true},
		"combined with none":  {httplimit.Combined(byKey, none), "", false},
		"combined with error": {httplimit.Combined(byKey, fails), "", false},
	} {
		got, err := c.key(r)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want == "" && name != "a hash of nothing", err != nil, name)
		assert.Equal(t, c.invalid, errors.Is(err, limit.ErrInvalidRequest), name)
	}
}

// TestByHeader_OtherServers_ReadTheSame, or the request has no key: a proxy removes what Connection names.
func TestByHeader_OtherServers_ReadTheSame(t *testing.T) {
	for _, c := range []struct{ field, value, connection, want string }{
		{"X-Key", "a", "close", "a"}, {"X-Key", "a", "close, x-key", ""}, {"X_Key", "a", "", ""},
		{"Authorization", "Bearer  a", "", "bearer a"}, {"Authorization", "bearer a", "keep-alive", "bearer a"},
		{"Authorization", "Basic YTp=", "", "basic YTo="}, {"Authorization", "Basic ?", "", ""},
		{"Authorization", "Bearer a", "Authorization", ""},
	} {
		r := request()
		r.Header.Set(c.field, c.value)
		r.Header.Set("Connection", c.connection)
		key, err := httplimit.ByHeader(strings.ReplaceAll(c.field, "_", "-"))(r)
		assert.Equal(t, c.want, key, c)
		assert.Equal(t, c.want == "", errors.Is(err, limit.ErrInvalidRequest), c)
	}
	r := request()
	r.Header.Set("X-Key", "a")
	r.Trailer = http.Header{"X-Key": nil}
	_, err := httplimit.ByHeader("X-Key")(r)
	assert.ErrorIs(t, err, limit.ErrInvalidRequest)
}

// A chooser of an own kind can join what the choosers of the package return.
func TestEach_LimitersOfARequest_CanBeJoined(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		each := perIP(client, hour(1))
		all := httplimit.All(limit.New(client, "all", hour(5)))
		handler := httplimit.Middleware(func(r *http.Request) (httplimit.Limiter, error) {
			one, err := each(r)
			require.NoError(t, err)
			other, err := all(r)
			require.NoError(t, err)
			return limit.Join(one, other), nil
		})(ok)
		assert.Equal(t, http.StatusOK, serve(handler, request()).Code)
		assert.Equal(t, http.StatusTooManyRequests, serve(handler, request()).Code)
	})
}
