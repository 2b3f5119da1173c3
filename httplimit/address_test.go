package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/httplimit"
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
	// A client can give its unix socket any name.
	unix := &net.UnixAddr{Name: "server", Net: "unix"}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, unix)
	_, err := httplimit.ByIP()(request().WithContext(ctx))
	assert.ErrorContains(t, err, "unix socket")
}

// TestUnixSocket_Trusted_HeaderNamesTheClient: the peers of a unix socket are proxies, and those of TCP are
// not.
func TestUnixSocket_Trusted_HeaderNamesTheClient(t *testing.T) {
	key := httplimit.ByIP(httplimit.UnixSocket())
	var got string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		got, err = key(r)
		assert.Equal(t, got == "", err != nil)
	})
	for network, want := range map[string]map[string]string{
		"unix": {"": "", "203.0.113.9": "203.0.113.9", "1.1.1.1, 203.0.113.9": "203.0.113.9", "::": ""},
		"tcp":  {"": "127.0.0.1", "203.0.113.9": "127.0.0.1"},
	} {
		at := "127.0.0.1:0"
		if network == "unix" {
			at = filepath.Join(t.TempDir(), "s")
		}
		listener, err := net.Listen(network, at)
		assert.NoError(t, err)
		server := &http.Server{Handler: handler}
		go func() { _ = server.Serve(listener) }()
		dial := func(context.Context, string, string) (net.Conn, error) {
			return net.Dial(network, listener.Addr().String())
		}
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		for header, want := range want {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
			if header != "" {
				r.Header.Set("X-Forwarded-For", header)
			}
			response, err := client.Do(r)
			assert.NoError(t, err)
			response.Body.Close()
			assert.Equal(t, want, got, "%s %q", network, header)
		}
		server.Close()
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

func TestKey_Request_GivesTextOrError(t *testing.T) {
	r := request()
	r.Header = http.Header{"X-Key": {" a "}, "X-Two": {"a", "b"}, "X-Empty": {" "}, "X-Wide": {"\u00a0a\u2003"}}
	r.SetPathValue("id", "7|8")
	byKey := httplimit.ByHeader("X-Key")
	none := func(*http.Request) (string, error) { return "", nil }
	fails := func(*http.Request) (string, error) { return "x", fmt.Errorf("no") }
	for name, c := range map[string]struct {
		key     httplimit.Key
		want    string
		invalid bool
	}{
		"a header":            {httplimit.ByHeader("x-key"), "a", false},
		"other white space":   {httplimit.ByHeader("X-Wide"), "\u00a0a\u2003", false},
		"a hashed header":     {httplimit.Hashed(byKey), "ca978112ca1bbdcafac231b39a23dc4d", false},
		"a hash of nothing":   {httplimit.Hashed(none), "", false},
		"a hash of none":      {httplimit.Hashed(httplimit.ByHeader("X-None")), "", true},
		"two lines":           {httplimit.ByHeader("X-Two"), "", true},
		"nothing but a space": {httplimit.ByHeader("X-Empty"), "", true},
		"none":                {httplimit.ByHeader("X-None"), "", true},
		"a path value":        {httplimit.ByPathValue("id"), "7|8", false},
		"no path value":       {httplimit.ByPathValue("name"), "", false},
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
