package httptarget

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHost_Spellings_AreNormalised(t *testing.T) {
	for host, want := range map[string]string{
		"":                       "",
		"api.example.org":        "api.example.org",
		"API.example.ORG":        "api.example.org",
		"api.example.org:443":    "api.example.org",
		"api.example.org:":       "api.example.org",
		"api.example.org.":       "api.example.org",
		"api.example.org..":      "api.example.org",
		"api.example.org.:8443":  "api.example.org",
		"api.example.org:80:443": "api.example.org",
		"192.0.2.1:80":           "192.0.2.1",
		"[2001:DB8::1]:443":      "[2001:db8::1]",
		"[2001:db8::1]":          "[2001:db8::1]",
		"[2001:db8::1]x":         "[2001:db8::1]",
		"[":                      "[",
	} {
		assert.Equal(t, want, Host(host), host)
		assert.Equal(t, want, Host(want), host)
	}
}

func TestIsHost_InvalidPort_IsNone(t *testing.T) {
	for host, want := range map[string]bool{
		"shop.example": true, "shop.example:8443": true, "[2001:db8::1]": true, "[2001:db8::1]:443": true,
		"10.0.0.1:80": true,
		"":            false, ":80": false, "shop.example:": false, "shop.examplehttp:": false, "shop.example:80x": false,
		"[::1":   false,
		"[::1]x": false,
	} {
		assert.Equal(t, want, IsHost(host), host)
	}
}

func TestMethod_Get_IncludesHead(t *testing.T) {
	assert.True(t, HasMethod("GET", "HEAD"))
	assert.False(t, HasMethod("HEAD", "GET"))
	assert.Equal(t, "GET", MethodKey("HEAD"))
	assert.Equal(t, "PUT", MethodKey("PUT"))
	assert.Equal(t, OtherMethods, MethodKey("PROPFIND"))
}

func TestReadPath_Spellings_HaveReadings(t *testing.T) {
	for path, want := range map[string][]string{
		"/":                 {"/"},
		"":                  {"/"},
		"*":                 {"/*"},
		"/login":            {"/login"},
		"/login/":           {"/login/"},
		"/a.b/..c/...":      {"/a.b/..c/..."},
		"/%6Cogin%20x":      {"/%6Cogin%20x"},
		"//login":           {"//login", "/login"},
		"/a///b//":          {"/a///b//", "/a/b/"},
		"/login;v=1":        {"/login;v=1", "/login"},
		"/login%3Bv=1":      {"/login%3Bv=1", "/login"},
		"/;x/login":         {"/;x/login", "//login", "/login"},
		"//a;b/c;d=e/":      {"//a;b/c;d=e/", "/a;b/c;d=e/", "//a/c/", "/a/c/"},
		"/a;b//c":           {"/a;b//c", "/a;b/c", "/a//c", "/a/c"},
		"/a%2525":           {"/a%2525"},
		"/%E2%82%AC/\xff":   {"/%E2%82%AC/\xff"},
		"/static/%2e%2e%2e": {"/static/%2e%2e%2e"},
	} {
		p, err := ReadPath(path, false)
		require.NoError(t, err, path)
		assert.Equal(t, want, append([]string{p.Text}, p.Others...), path)
	}
}

func TestReadPath_DotSegment_IsAnError(t *testing.T) {
	for _, path := range []string{
		"/.", "/..", "/./a", "/a/../b", "/a/..", "/%2e%2e/a", "/a/.%2E/b", "/%2E", "/..;/a", "/a/..;x=1/b", "/a/.;",
		"/a/%2e%2e%3bx/b", "..", "/%zz", "/a%2", "/%", "/a/%\x10\x10",
	} {
		_, err := ReadPath(path, false)
		assert.ErrorIs(t, err, errNotClean, path)
		_, err = ReadPath(path, true)
		assert.ErrorIs(t, err, errNotClean, path)
	}
}

func TestReadPath_EscapedSlash_IsAnErrorOrHasBothReadings(t *testing.T) {
	for path, want := range map[string][]string{
		"/a%2Fb":             {"/a%2Fb", "/a/b"},
		"/a%2fb":             {"/a%2fb", "/a/b"},
		`/a\b`:               {`/a\b`, "/a/b"},
		"/a%5Cb%2Fc":         {"/a%5Cb%2Fc", "/a%5Cb/c", "/a/b/c"},
		"/a%2F/b":            {"/a%2F/b", "/a//b", "/a/b"},
		"/a;x%2Fb":           {"/a;x%2Fb", "/a", "/a;x/b", "/a/b"},
		"/static/..%2Flogin": nil,
		"/..%5clogin":        nil,
		"/a%2F%2e%2e":        nil,
	} {
		_, err := ReadPath(path, false)
		assert.ErrorIs(t, err, errSlash, path)
		p, err := ReadPath(path, true)
		if want == nil {
			assert.ErrorIs(t, err, errNotClean, path)
			continue
		}
		assert.NoError(t, err, path)
		assert.Equal(t, want, append([]string{p.Text}, p.Others...), path)
	}
}

// FuzzReadPath: no interpretation has a segment that another server interprets as several segments.
func FuzzReadPath(f *testing.F) {
	f.Add("/a%2e/..;x//b")
	f.Add("//%2F;a/%3B../.")
	f.Fuzz(func(t *testing.T, path string) {
		p, err := ReadPath(path, false)
		if err != nil {
			return
		}
		p.All(func(interpretation string) bool {
			for segment := range strings.SplitSeq(strings.TrimPrefix(interpretation, "/"), "/") {
				plain, _ := url.PathUnescape(segment)
				if plain == "." || plain == ".." || strings.ContainsAny(plain, `/\`) || hasSlash(segment) {
					t.Errorf("%q has the interpretation %q with the segment %q", path, interpretation, plain)
				}
			}
			return true
		})
	})
}
