package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// text is an address of a type that package net does not have.
type text struct{ network, addr string }

func (t text) Network() string { return t.network }
func (t text) String() string  { return t.addr }

// The network of a peer decides whether it has an address. Peers without one never share a key.
func TestByIP_PeerOfAnyNetwork_GivesAddressOrError(t *testing.T) {
	unix := func(path string) net.Addr { return &net.UnixAddr{Name: path, Net: "unix"} }
	for i, c := range []struct {
		peer net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("198.51.100.1")}, "198.51.100.1"}, // of 16 bytes
		{&net.UDPAddr{IP: net.IPv4(198, 51, 100, 1)}, "198.51.100.1"},
		{text{"tcp", "198.51.100.1:4711"}, "198.51.100.1"}, // a server behind net/http
		{text{"tcp", "[2001:db8::1]:1"}, "2001:db8::/64"},
		{nil, ""},
		{(*net.TCPAddr)(nil), ""},
		{&net.TCPAddr{}, ""},
		{unix(""), ""},
		{unix("@"), ""},
		{unix("198.51.100.1:80"), ""}, // a client can give its socket any path
		{unix("10.0.0.1:80"), ""},     // of a proxy
		{text{"bufconn", "bufconn"}, ""},
		{text{"bufconn", "198.51.100.1:80"}, ""},
		{text{"pipe", "pipe"}, ""},
		{text{"", ""}, ""},
		{text{"tcp", "example.org:80"}, ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "203.0.113.9"))
		ctx = peer.NewContext(ctx, &peer.Peer{Addr: c.peer})
		got, err := grpclimit.ByIP(netip.MustParsePrefix("10.0.0.0/8"))(ctx, grpclimit.Call{})
		assert.Equal(t, c.want, got, "row %d", i)
		if assert.Equal(t, c.want == "", err != nil, "row %d: %v", i, err) && err != nil {
			assert.NotContains(t, err.Error(), "198.51.100.1:80")
		}
	}
	// A server behind net/http reports a client's name of its unix socket as an address of TCP.
	behind := &peer.Peer{Addr: text{"tcp", "198.51.100.1:80"}, LocalAddr: unix("server")}
	_, err := grpclimit.ByIP()(peer.NewContext(t.Context(), behind), grpclimit.Call{})
	assert.ErrorContains(t, err, "unix socket")

	proxied := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "203.0.113.9"))
	for _, p := range []*peer.Peer{behind, {Addr: unix("@")}} {
		got, err := grpclimit.ByIP(httplimit.UnixSocket())(peer.NewContext(proxied, p), grpclimit.Call{})
		assert.NoError(t, err)
		assert.Equal(t, "203.0.113.9", got)
	}
}

// The contract has keys of incoming calls.
func TestKey_Call_GivesTextOrError(t *testing.T) {
	ctx := from(t.Context(), "192.0.2.1:1", "x-two", "a")
	ctx = metadata.AppendToOutgoingContext(ctx, "X-Key", "out|going", "Authorization", "BEARER  x")
	in := grpclimit.Call{Method: "/pkg.Service/Method"}
	out := grpclimit.Call{Method: "/pkg.Service/Method", Outgoing: true, Target: "dns:///host"}
	byKey := grpclimit.ByMetadata("X-Key")
	fails := func(context.Context, grpclimit.Call) (string, error) { return "x", fmt.Errorf("no") }
	for name, c := range map[string]struct {
		key     grpclimit.Key
		call    grpclimit.Call
		want    string
		invalid bool
	}{
		"metadata that goes": {byKey, out, "out|going", false},
		"none goes":          {grpclimit.ByMetadata("x-two"), out, "", true},
		"credentials":        {grpclimit.ByMetadata("authorization"), out, "bearer x", false},
		"method":             {grpclimit.ByMethod(), in, "/pkg.Service/Method", false},
		"combined": {grpclimit.Combined(grpclimit.ByMetadata("x-key"), grpclimit.ByIP(),
			grpclimit.ByMethod()), out, `out\|going|192.0.2.1|/pkg.Service/Method`, false},
		"combined with error": {grpclimit.Combined(grpclimit.ByMethod(), fails), in, "", false},
	} {
		got, err := c.key(ctx, c.call)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want == "", err != nil, name)
		assert.Equal(t, c.invalid, errors.Is(err, limit.ErrInvalidRequest), name)
	}
}
