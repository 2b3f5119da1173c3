package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter/grpclimit"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

// text is an address that is none of package net's.
type text struct{ network, addr string }

func (t text) Network() string { return t.network }
func (t text) String() string  { return t.addr }

// What a peer and its metadata come to: a key, or "" where it cannot be told who asks.
func TestSpoofing(t *testing.T) {
	tcp := func(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }
	unix := func(path string) net.Addr { return &net.UnixAddr{Name: path, Net: "unix"} }
	proxy := tcp("10.0.0.1:1")
	for i, c := range []struct {
		peer   net.Addr
		header string // that is believed of proxies; "" for x-forwarded-for
		pairs  []string
		want   string
	}{
		// Peers as they are.
		{tcp("198.51.100.1:4711"), "", nil, "198.51.100.1"},
		{tcp("[2001:db8:1:2:3:4:5:6]:1"), "", nil, "2001:db8:1:2::/64"},
		{tcp("[fe80::1%eth0]:1"), "", nil, "fe80::1"},
		{tcp("[64:ff9b::198.51.100.7]:1"), "", nil, "198.51.100.7"},
		{tcp("[::ffff:198.51.100.1]:1"), "", nil, "198.51.100.1"},
		{&net.TCPAddr{IP: net.ParseIP("198.51.100.1")}, "", nil, "198.51.100.1"}, // of 16 bytes
		{&net.UDPAddr{IP: net.IPv4(198, 51, 100, 1)}, "", nil, "198.51.100.1"},
		{text{"tcp", "198.51.100.1:4711"}, "", nil, "198.51.100.1"}, // a server behind net/http
		{text{"tcp", "[2001:db8::1]:1"}, "", nil, "2001:db8::/64"},

		// Peers that are no address, and never one key for all of them.
		{nil, "", nil, ""},
		{(*net.TCPAddr)(nil), "", nil, ""},
		{&net.TCPAddr{}, "", nil, ""},
		{unix(""), "", nil, ""},
		{unix("@"), "", nil, ""},
		{unix("198.51.100.1:80"), "", nil, ""}, // a client can give its socket any path
		{unix("10.0.0.1:80"), "", []string{"x-forwarded-for", "203.0.113.9"}, ""},
		{text{"bufconn", "bufconn"}, "", nil, ""},
		{text{"bufconn", "198.51.100.1:80"}, "", nil, ""},
		{text{"pipe", "pipe"}, "", nil, ""},
		{text{"", ""}, "", nil, ""},
		{text{"tcp", "example.org:80"}, "", nil, ""},

		// Nobody else is believed.
		{tcp("198.51.100.1:1"), "", []string{"x-forwarded-for", "203.0.113.9"}, "198.51.100.1"},
		{tcp("198.51.100.1:1"), "", []string{"x-forwarded-for", "10.0.0.1"}, "198.51.100.1"},
		{tcp("198.51.100.1:1"), "forwarded", []string{"forwarded", "for=203.0.113.9"}, "198.51.100.1"},
		{tcp("11.0.0.0:1"), "", []string{"x-forwarded-for", "203.0.113.9"}, "11.0.0.0"},

		// The proxy's word, read from the right; several values are one list.
		{proxy, "", []string{"x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{proxy, "", []string{"x-forwarded-for", "1.1.1.1, 203.0.113.9 ,10.0.0.7"}, "203.0.113.9"},
		{proxy, "", []string{"x-forwarded-for", "1.1.1.1", "x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{proxy, "", []string{"x-forwarded-for", "203.0.113.9", "x-forwarded-for", "10.0.0.7"}, "203.0.113.9"},
		{proxy, "", []string{"x-forwarded-for", "[2001:db8::1]:4711"}, "2001:db8::/64"},
		{tcp("[fd00::1%eth0]:1"), "", []string{"x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{tcp("[::ffff:10.0.0.1]:1"), "", []string{"x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{proxy, "X-Real-IP", []string{"x-real-ip", "203.0.113.9", "x-forwarded-for", "1.1.1.1"}, "203.0.113.9"},
		{proxy, "Forwarded", []string{"forwarded", `for="1.1.1.1, for=203.0.113.9;proto=https`}, "203.0.113.9"},
		{proxy, "forwarded", []string{"forwarded", `for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64"},

		// What says nothing.
		{proxy, "", nil, ""},
		{proxy, "", []string{"x-forwarded-for", ""}, ""},
		{proxy, "", []string{"x-forwarded-for", "203.0.113.9, unknown"}, ""},
		{proxy, "", []string{"x-forwarded-for", "203.0.113.9", "x-forwarded-for", ""}, ""},
		{proxy, "", []string{"x-forwarded-for", "10.0.0.2, 10.0.0.3"}, ""},
		{proxy, "", []string{"x-forwarded-for", "203.0.113.9, 10.0.0.0/8"}, ""},
		{proxy, "", []string{"x-forwarded-for", strings.Repeat("9", 10_000)}, ""},
		{proxy, "", []string{"forwarded", "for=203.0.113.9"}, ""},
		{proxy, "forwarded", []string{"forwarded", "for=_hidden"}, ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(c.pairs...))
		ctx = peer.NewContext(ctx, &peer.Peer{Addr: c.peer})
		got, err := grpclimit.Address{Trusted: proxies, Header: c.header}.Key(ctx, grpclimit.Call{})
		assert.Equal(t, c.want, got, "row %d", i)
		if assert.Equal(t, c.want == "", err != nil, "row %d: %v", i, err) && err != nil {
			assert.Less(t, len(err.Error()), 300)
			assert.NotContains(t, err.Error(), "198.51.100.1:80")
		}
		if c.header == "" {
			byIP, _ := grpclimit.ByIP(proxies...)(ctx, grpclimit.Call{})
			assert.Equal(t, got, byIP, "row %d", i)
		}
	}
}

func TestIPv6Bits(t *testing.T) {
	ctx := from(t.Context(), "[2001:db8:1:2:3:4:5:6]:1")
	for bits, want := range map[int]string{0: "2001:db8:1:2::/64", 48: "2001:db8:1::/48", 128: "2001:db8:1:2:3:4:5:6", 129: "", -1: ""} {
		got, err := grpclimit.Address{IPv6Bits: bits}.Key(ctx, grpclimit.Call{})
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil)
	}
	assert.Panics(t, func() { grpclimit.ByIP(netip.Prefix{}) })
}

// FuzzUntrusted: no metadata of a peer that is not trusted changes the key.
func FuzzUntrusted(f *testing.F) {
	f.Add("198.51.100.1", "", "203.0.113.9")
	f.Add("2001:db8::1", "forwarded", "for=10.0.0.1")
	f.Fuzz(func(t *testing.T, addr, header, value string) {
		ip, err := netip.ParseAddr(addr)
		if err != nil || netip.MustParsePrefix("10.0.0.0/8").Contains(ip.Unmap()) || netip.MustParsePrefix("fd00::/8").Contains(ip.WithZone("")) {
			return
		}
		plain := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 1))})
		clients := grpclimit.Address{Trusted: proxies, Header: header}
		want, err := clients.Key(plain, grpclimit.Call{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := clients.Key(metadata.NewIncomingContext(plain, metadata.MD{
			"x-forwarded-for": {value}, "forwarded": {value}, strings.ToLower(header): {value, value},
		}), grpclimit.Call{})
		if got != want || err != nil {
			t.Errorf("%q is %q, and with metadata %q, %v", addr, want, got, err)
		}
	})
}

func TestKeys(t *testing.T) {
	ctx := from(t.Context(), "192.0.2.1:1", "x-key", " a ", "x-two", "a", "x-two", "b", "x-empty", " ")
	ctx = metadata.AppendToOutgoingContext(ctx, "X-Key", "out|going")
	in := grpclimit.Call{Method: "/pkg.Service/Method"}
	out := grpclimit.Call{Method: "/pkg.Service/Method", Outgoing: true, Target: "dns:///host"}
	none := func(context.Context, grpclimit.Call) (string, error) { return "", nil }
	fails := func(context.Context, grpclimit.Call) (string, error) { return "x", fmt.Errorf("no") }
	for name, c := range map[string]struct {
		key  grpclimit.Key
		call grpclimit.Call
		want string
	}{
		"metadata":            {grpclimit.ByMetadata("X-Key"), in, "a"},
		"metadata that goes":  {grpclimit.ByMetadata("X-Key"), out, "out|going"},
		"hashed metadata":     {grpclimit.Hashed(grpclimit.ByMetadata("X-Key")), in, "ca978112ca1bbdcafac231b39a23dc4d"},
		"a hash of none":      {grpclimit.Hashed(grpclimit.ByMetadata("x-none")), in, ""},
		"two values":          {grpclimit.ByMetadata("x-two"), in, ""},
		"nothing but a space": {grpclimit.ByMetadata("x-empty"), in, ""},
		"none":                {grpclimit.ByMetadata("x-none"), in, ""},
		"none goes":           {grpclimit.ByMetadata("x-two"), out, ""},
		"method":              {grpclimit.ByMethod(), in, "/pkg.Service/Method"},
		"service":             {grpclimit.ByService(), in, "pkg.Service"},
		"no service":          {grpclimit.ByService(), grpclimit.Call{Method: "Method"}, ""},
		"target":              {grpclimit.ByTarget(), out, "dns:///host"},
		"no target":           {grpclimit.ByTarget(), in, ""},
		"combined":            {grpclimit.Combined(grpclimit.ByMetadata("x-key"), grpclimit.ByIP(), grpclimit.ByService()), out, `out\|going|192.0.2.1|pkg.Service`},
		"combined with none":  {grpclimit.Combined(grpclimit.ByMethod(), none), in, ""},
		"combined with error": {grpclimit.Combined(grpclimit.ByMethod(), fails), in, ""},
	} {
		got, err := c.key(ctx, c.call)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want == "", err != nil, name)
	}
	for method, want := range map[string]string{"/a.B/C": "a.B", "a.B/C": "a.B", "/a/b/C": "a/b", "/C": "", "": ""} {
		assert.Equal(t, want, grpclimit.Call{Method: method}.Service())
	}
}
