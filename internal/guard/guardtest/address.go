package guardtest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// trusted are the proxies of the addresses below. The last network is 172.16.0.0/12.
var trusted = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::ffff:172.16.0.0/108"),
}

const (
	proxy    = "10.0.0.1:1"
	stranger = "198.51.100.1:4711"
)

// addresses lists peers, their headers and the key of the client, "" for an error.
var addresses = []struct {
	peer   string
	header string // the configured one; "" for X-Forwarded-For
	lines  []string
	want   string
}{
	// A peer that is not trusted.
	{stranger, "", nil, "198.51.100.1"},
	{stranger, "", []string{"X-Forwarded-For: 203.0.113.9"}, "198.51.100.1"},
	{stranger, "", []string{"X-Forwarded-For: 10.0.0.1"}, "198.51.100.1"},
	{stranger, "Forwarded", []string{"Forwarded: for=203.0.113.9"}, "198.51.100.1"},
	{stranger, "X-Real-IP", []string{"X-Real-IP: 203.0.113.9"}, "198.51.100.1"},
	{stranger, "", []string{"X-Forwarded-For: garbage"}, "198.51.100.1"},
	{"[2001:db8::1]:4711", "", []string{"X-Forwarded-For: 203.0.113.9"}, "2001:db8::/64"},
	{"9.255.255.255:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "9.255.255.255"},
	{"11.0.0.0:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "11.0.0.0"},

	// Peers.
	{"[2001:db8:1:2:3:4:5:6]:1", "", nil, "2001:db8:1:2::/64"},
	{"[2001:db8:1:2::9]:1", "", nil, "2001:db8:1:2::/64"},
	{"[::1]:1", "", nil, "::/64"},
	{"[fe80::1%eth0]:1", "", nil, "fe80::1"},
	{"[febf::1]:1", "", nil, "febf::1"},
	{"[64:ff9b::198.51.100.7]:1", "", nil, "198.51.100.7"},
	{"[::ffff:0:198.51.100.7]:1", "", nil, "198.51.100.7"},
	{"[64:ff9b::1:0:0]:1", "", nil, "64:ff9b::/64"},
	{"[64:ff9b:1::c633:6407]:1", "", nil, "64:ff9b:1::/64"},
	// A translated address is not the trusted 10.0.0.1.
	{"[64:ff9b::10.0.0.1]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "10.0.0.1"},
	{"[::ffff:198.51.100.1]:1", "", nil, "198.51.100.1"},

	// The list of a proxy, read from the right.
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 1.1.1.1,203.0.113.9 , 10.0.0.7"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 10.0.0.9, 203.0.113.9, 10.0.0.7"}, "203.0.113.9"},
	{"[::ffff:10.0.0.1]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"[fd00::1%eth0]:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"172.16.0.1:1", "", []string{"X-Forwarded-For: 203.0.113.9, 172.31.255.255"}, "203.0.113.9"},
	{"172.32.0.0:1", "", []string{"X-Forwarded-For: 203.0.113.9"}, "172.32.0.0"},
	{proxy, "", []string{"X-Forwarded-For: garbage, 203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: , 203.0.113.9"}, "203.0.113.9"},

	// Several headers are one list.
	{proxy, "", []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.0.0.7"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: "}, "203.0.113.9"},
	{proxy, "X-Real-IP", []string{"X-Real-IP: 1.1.1.1", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},

	// Empty elements do not count.
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9, "}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9 ,, \t,10.0.0.7,"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=1.1.1.1, for=203.0.113.9, ", "Forwarded: ,"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: , ,"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: "}, ""},

	// The configured header alone.
	{proxy, "", []string{"Forwarded: for=1.1.1.1", "X-Real-IP: 2.2.2.2"}, ""},
	{proxy, "X-Real-IP", []string{"X-Forwarded-For: 1.1.1.1", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},
	{proxy, "CF-Connecting-IP", []string{"CF-Connecting-IP: 2001:db8::1"}, "2001:db8::/64"},

	// Forms of addresses.
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9:4711"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::/64"},
	{proxy, "", []string{"X-Forwarded-For: ::1"}, "::/64"},
	{proxy, "", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "2001:db8::/64"},
	{proxy, "", []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::/64"},
	{proxy, "", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: fe80::1%25eth0"}, "fe80::1"},
	{proxy, "", []string{"X-Forwarded-For: 1.1.1.1, 64:ff9b::cb00:7109"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9, 64:ff9b::10.0.0.2"}, "10.0.0.2"},

	// No client address.
	{proxy, "", nil, ""},
	{proxy, "", []string{"X-Forwarded-For: "}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9, unknown"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.0/8"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 10.0.0.2, 10.0.0.3"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9; 1.1.1.1"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.256"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 0x7f.1"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9:"}, ""},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9:port"}, ""},
	{proxy, "", []string{"X-Forwarded-For: [203.0.113.9]"}, ""},
	{proxy, "", []string{"X-Forwarded-For: [2001:db8::1"}, ""},
	{proxy, "", []string{"X-Forwarded-For: [2001:db8::1]x"}, ""},
	{proxy, "", []string{"X-Forwarded-For: \"203.0.113.9\""}, ""},

	// Long headers.
	{proxy, "", []string{"X-Forwarded-For: " + strings.Repeat("1.1.1.1, ", 1111) + "203.0.113.9"}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: 203.0.113.9" + strings.Repeat(", 10.0.0.1", 1000)}, "203.0.113.9"},
	{proxy, "", []string{"X-Forwarded-For: " + strings.Repeat("9", 10_000)}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=\"" + strings.Repeat("\\\"", 5000)}, ""},
	{"198.51.100.1:1", "", []string{"X-Forwarded-For: " + strings.Repeat("9", 10_000)}, "198.51.100.1"},

	// Forwarded.
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: For=203.0.113.9;proto=https;by=10.0.0.1"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: proto=https; for=\"203.0.113.9:4711\""}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=\"[2001:db8:cafe::17]:4711\""}, "2001:db8:cafe::/64"},
	{proxy, "Forwarded", []string{"Forwarded: for=\"[2001:db8:cafe::17]:_port\";by=_me"}, "2001:db8:cafe::/64"},
	{proxy, "Forwarded", []string{"Forwarded: for=[2001:db8:cafe::17]"}, "2001:db8:cafe::/64"},
	{proxy, "Forwarded", []string{"Forwarded: for=1.1.1.1, for=203.0.113.9, for=10.0.0.7"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=1.1.1.1", "Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	// The client leaves a quote open.
	{proxy, "Forwarded", []string{"Forwarded: for=\"1.1.1.1, for=203.0.113.9"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=\"", "Forwarded: for=203.0.113.9"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=1.1.1.1;host=\"a, for=2.2.2.2\", for=203.0.113.9"}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9;host=\"a, for=2.2.2.2\""}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9;host=\"a\\\", for=2.2.2.2\""}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=\"203.0.113\\.9\""}, "203.0.113.9"},
	{proxy, "Forwarded", []string{"Forwarded: for=unknown"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9, for=unknown"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=_hidden"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9, for=\"_SEVKISEK\""}, ""},
	{proxy, "Forwarded", []string{"Forwarded: proto=https"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9;for=1.1.1.1"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=203.0.113.9 1.1.1.1"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for=\"203.0.113.9\"x"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: 203.0.113.9"}, ""},
	{proxy, "Forwarded", []string{"Forwarded: for="}, ""},
	{proxy, "Forwarded", []string{"X-Forwarded-For: 203.0.113.9"}, ""},
}

// split returns the names and values of header lines.
func split(lines []string) (pairs [][2]string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs
}

func testAddress(t *testing.T, m Middleware) {
	for i, c := range addresses {
		got, err := m.AddressKey(netip.MustParseAddrPort(c.peer), Address{Trusted: trusted, Header: c.header}, split(c.lines))
		assert.Equal(t, c.want, got, "row %d: %.200v", i, c)
		if assert.Equal(t, c.want == "", err != nil, "row %d: %v", i, err) && err != nil {
			assert.Less(t, len(err.Error()), 300)
		}
	}
}

func testIPBits(t *testing.T, m Middleware) {
	for bits, want := range map[int]string{0: "192.0.2.7", 24: "192.0.2.0/24", 32: "192.0.2.7", 33: "", -1: ""} {
		got, err := m.AddressKey(netip.MustParseAddrPort("192.0.2.7:1"), Address{IPv4Bits: bits}, nil)
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil)
	}
	peer := netip.MustParseAddrPort("[2001:db8:1:2:3:4:5:6]:1")
	for bits, want := range map[int]string{
		0: "2001:db8:1:2::/64", 48: "2001:db8:1::/48", 128: "2001:db8:1:2:3:4:5:6", 129: "", -1: "",
	} {
		got, err := m.AddressKey(peer, Address{IPv6Bits: bits}, nil)
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil)
	}
	assert.Panics(t, func() { _, _ = m.AddressKey(peer, Address{Trusted: make([]netip.Prefix, 1)}, nil) })
}

// FuzzUntrusted changes the key of a peer that is not trusted by headers, which must not work.
func FuzzUntrusted(f *testing.F, m Middleware) {
	for _, c := range addresses {
		f.Add(c.peer, c.header, strings.Join(c.lines, "\n"))
	}
	f.Fuzz(func(t *testing.T, peer, header, text string) {
		from, err := netip.ParseAddrPort(peer)
		if err != nil {
			return
		}
		addr := from.Addr().WithZone("").Unmap()
		inner := append(slices.Clone(trusted[:2]), netip.MustParsePrefix("172.16.0.0/12"))
		if slices.ContainsFunc(inner, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return
		}
		clients := Address{Trusted: trusted, Header: header}
		want, err := m.AddressKey(from, clients, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := [][2]string{{"X-Forwarded-For", text}, {"Forwarded", text}, {header, text}}
		lines = append(lines, split(strings.Split(text, "\n"))...)
		if got, err := m.AddressKey(from, clients, lines); got != want || err != nil {
			t.Errorf("%q is %q, and with headers %q, %v", peer, want, got, err)
		}
	})
}
