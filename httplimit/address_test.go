package httplimit_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::ffff:172.16.0.0/108"),
}

// What a peer and its headers come to: a key, or "" where it cannot be told who asks. The proxies are 10.0.0.0/8, fd00::/8 and
// 172.16.0.0/12.
var spoofs = []struct {
	peer   string
	header string // that is believed of proxies; "" for X-Forwarded-For
	lines  []string
	want   string
}{
	// Nobody else is believed.
	{"198.51.100.1:4711", "", nil, "198.51.100.1"},
	{"198.51.100.1:4711", "", []string{"X-Forwarded-For: 203.0.113.9"}, "198.51.100.1"},
	{"198.51.100.1:4711", "", []string{"X-Forwarded-For: 10.0.0.1"}, "198.51.100.1"},
	{"198.51.100.1:4711", "Forwarded", []string{"Forwarded: for=203.0.113.9"}, "198.51.100.1"},
	{"198.51.100.1:4711", "X-Real-IP", []string{"X-Real-IP: 203.0.113.9"}, "198.51.100.1"},
	{"198.51.100.1:4711", "", []string{"X-Forwarded-For: garbage"}, "198.51.100.1"},
	{"[2001:db8::1]:4711", "", []string{"X-Forwarded-For: 203.0.113.9"}, "2001:db8::/64"},
	{"9.255.255.255:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "9.255.255.255"},
	{"11.0.0.0:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "11.0.0.0"},

	// Peers as they are written.
	{"198.51.100.1", "", nil, "198.51.100.1"},
	{"[2001:db8:1:2:3:4:5:6]:1", "", nil, "2001:db8:1:2::/64"},
	{"[2001:db8:1:2::9]:1", "", nil, "2001:db8:1:2::/64"},
	{"[fe80::1%eth0]:1", "", nil, "fe80::1"},
	{"[64:ff9b::198.51.100.7]:1", "", nil, "198.51.100.7"},
	{"[::ffff:0:198.51.100.7]:1", "", nil, "198.51.100.7"},
	{"[64:ff9b::10.0.0.1]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "10.0.0.1"}, // translated, and so no proxy of ours
	{"[::ffff:198.51.100.1]:1", "", nil, "198.51.100.1"},
	{"", "", nil, ""},
	{"@", "", nil, ""},
	{"example.org:80", "", nil, ""},

	// The proxy's word, read from the right.
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 1.1.1.1,203.0.113.9 , 10.0.0.7"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 10.0.0.9, 203.0.113.9, 10.0.0.7"}, "203.0.113.9"},
	{"[::ffff:10.0.0.1]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"[fd00::1%eth0]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"172.16.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, 172.31.255.255"}, "203.0.113.9"},
	{"172.32.0.0:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "172.32.0.0"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: garbage, 203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: , 203.0.113.9"}, "203.0.113.9"},

	// Several lines are one list.
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.0.0.7"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: "}, ""},
	{"10.0.0.1:1", "X-Real-IP", []string{"X-Real-IP: 1.1.1.1", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},

	// Only the header that was named.
	{"10.0.0.1:1", "", []string{"Forwarded: for=1.1.1.1", "X-Real-IP: 2.2.2.2"}, ""},
	{"10.0.0.1:1", "X-Real-IP", []string{"X-Forwarded-For: 1.1.1.1", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "CF-Connecting-IP", []string{"Cf-Connecting-Ip: 2001:db8::1"}, "2001:db8::/64"},

	// What proxies write.
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9:4711"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::/64"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "2001:db8::/64"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::/64"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: fe80::1%25eth0"}, "fe80::1"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 1.1.1.1, 64:ff9b::cb00:7109"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, 64:ff9b::10.0.0.2"}, "10.0.0.2"},

	// What says nothing.
	{"10.0.0.1:1", "", nil, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: "}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, "}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, unknown"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.0/8"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 10.0.0.2, 10.0.0.3"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9; 1.1.1.1"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.256"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 0x7f.1"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9:"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9:port"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: [203.0.113.9]"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: [2001:db8::1"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: [2001:db8::1]x"}, ""},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: \"203.0.113.9\""}, ""},

	// 10 kB.
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: " + strings.Repeat("1.1.1.1, ", 1111) + "203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9" + strings.Repeat(", 10.0.0.1", 1000)}, "203.0.113.9"},
	{"10.0.0.1:1", "", []string{"X-Forwarded-For: " + strings.Repeat("9", 10_000)}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"" + strings.Repeat("\\\"", 5000)}, ""},
	{"198.51.100.1:1", "", []string{"X-Forwarded-For: " + strings.Repeat("9", 10_000)}, "198.51.100.1"},

	// Forwarded.
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: For=203.0.113.9;proto=https;by=10.0.0.1"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: proto=https; for=\"203.0.113.9:4711\""}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"[2001:db8:cafe::17]:4711\""}, "2001:db8:cafe::/64"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"[2001:db8:cafe::17]:_port\";by=_me"}, "2001:db8:cafe::/64"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=[2001:db8:cafe::17]"}, "2001:db8:cafe::/64"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=1.1.1.1, for=203.0.113.9, for=10.0.0.7"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=1.1.1.1", "Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"1.1.1.1, for=203.0.113.9"}, "203.0.113.9"}, // an open quote of the client's
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"", "Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=1.1.1.1;host=\"a, for=2.2.2.2\", for=203.0.113.9"}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9;host=\"a, for=2.2.2.2\""}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9;host=\"a\\\", for=2.2.2.2\""}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"203.0.113\\.9\""}, "203.0.113.9"},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=unknown"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9, for=unknown"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=_hidden"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9, for=\"_SEVKISEK\""}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: proto=https"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9;for=1.1.1.1"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=203.0.113.9 1.1.1.1"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for=\"203.0.113.9\"x"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: 203.0.113.9"}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"Forwarded: for="}, ""},
	{"10.0.0.1:1", "Forwarded", []string{"X-Forwarded-For: 203.0.113.9"}, ""},
}

func headersOf(lines []string) http.Header {
	h := make(http.Header)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestSpoofing(t *testing.T) {
	for i, c := range spoofs {
		clients := httplimit.Address{Trusted: proxies, Header: c.header}
		got, err := clients.Key(&http.Request{RemoteAddr: c.peer, Header: headersOf(c.lines)})
		assert.Equal(t, c.want, got, "row %d: %.200v", i, c)
		if assert.Equal(t, c.want == "", err != nil, "row %d: %v", i, err) && err != nil {
			assert.Less(t, len(err.Error()), 300)
		}
		if c.header == "" {
			byIP, _ := httplimit.ByIP(proxies...)(&http.Request{RemoteAddr: c.peer, Header: headersOf(c.lines)})
			assert.Equal(t, got, byIP)
		}
	}
}

func TestIPv6Bits(t *testing.T) {
	r := &http.Request{RemoteAddr: "[2001:db8:1:2:3:4:5:6]:1"}
	for bits, want := range map[int]string{0: "2001:db8:1:2::/64", 48: "2001:db8:1::/48", 128: "2001:db8:1:2:3:4:5:6", 129: "", -1: ""} {
		got, err := httplimit.Address{IPv6Bits: bits}.Key(r)
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil)
	}
	assert.Panics(t, func() { httplimit.ByIP(netip.Prefix{}) })
}

// FuzzUntrusted: no header of a peer that is not trusted changes the key.
func FuzzUntrusted(f *testing.F) {
	for _, c := range spoofs {
		h := headersOf(c.lines)
		f.Add(c.peer, c.header, strings.Join(h["X-Forwarded-For"], "\n"), strings.Join(h["Forwarded"], "\n"))
	}
	f.Fuzz(func(t *testing.T, peer, header, forwardedFor, forwarded string) {
		clients := httplimit.Address{Trusted: proxies, Header: header}
		plain, err := clients.Client(&http.Request{RemoteAddr: peer})
		if err != nil || slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(plain) }) || netip.MustParsePrefix("172.16.0.0/12").Contains(plain) {
			return
		}
		r := &http.Request{RemoteAddr: peer, Header: http.Header{
			"X-Forwarded-For": strings.Split(forwardedFor, "\n"), "Forwarded": strings.Split(forwarded, "\n"),
			http.CanonicalHeaderKey(header): {forwardedFor, forwarded},
		}}
		want, _ := clients.Key(&http.Request{RemoteAddr: peer})
		if got, err := clients.Key(r); got != want || err != nil {
			t.Errorf("%q is %q, and with headers %q, %v", peer, want, got, err)
		}
	})
}

// FuzzBehindAProxy: whatever a client writes into a header, what its proxy writes behind it counts.
func FuzzBehindAProxy(f *testing.F) {
	for _, c := range spoofs {
		h := headersOf(c.lines)
		f.Add(strings.Join(h["X-Forwarded-For"], ", "), strings.Join(h["Forwarded"], ", "))
	}
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

func TestKeys(t *testing.T) {
	r := request()
	r.Header = http.Header{"X-Key": {" a "}, "X-Two": {"a", "b"}, "X-Empty": {" "}}
	r.SetPathValue("id", "7|8")
	none := func(*http.Request) (string, error) { return "", nil }
	fails := func(*http.Request) (string, error) { return "x", fmt.Errorf("no") }
	for name, c := range map[string]struct {
		key  httplimit.Key
		want string
	}{
		"a header":            {httplimit.ByHeader("x-key"), "a"},
		"a hashed header":     {httplimit.Hashed(httplimit.ByHeader("X-Key")), "ca978112ca1bbdcafac231b39a23dc4d"},
		"a hash of nothing":   {httplimit.Hashed(none), ""},
		"a hash of none":      {httplimit.Hashed(httplimit.ByHeader("X-None")), ""},
		"two lines":           {httplimit.ByHeader("X-Two"), ""},
		"nothing but a space": {httplimit.ByHeader("X-Empty"), ""},
		"none":                {httplimit.ByHeader("X-None"), ""},
		"a path value":        {httplimit.ByPathValue("id"), "7|8"},
		"no path value":       {httplimit.ByPathValue("name"), ""},
		"combined":            {httplimit.Combined(httplimit.ByHeader("X-Key"), httplimit.ByPathValue("id")), `a|7\|8`},
		"combined with none":  {httplimit.Combined(httplimit.ByHeader("X-Key"), none), ""},
		"combined with error": {httplimit.Combined(httplimit.ByHeader("X-Key"), fails), ""},
	} {
		got, err := c.key(r)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want == "" && name != "a hash of nothing", err != nil, name)
	}
}
