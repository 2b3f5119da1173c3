package guardtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Choice is what a client can choose of a request.
type Choice struct {
	Method, Host, Path string // of HTTP
	RPC                string // the full method of gRPC
	Peer               string
	Headers            [][2]string // or metadata
}

// The limits that a server can have, each of one permit an hour.
const (
	ByHeader = "header"  // of each value of the header Key
	ByBinary = "binary"  // of each value of the metadata Key-Bin
	ByClient = "address" // of each address, behind the trusted proxy 10.0.0.1 with X-Forwarded-For
	ByRoute  = "route"   // of shop.example/login for all methods but OPTIONS
	ByRPC    = "rpc"     // of /shop.Login/Do
)

// plain is the request that others are compared with.
func plain() Choice {
	return Choice{
		"POST", "shop.example", "/login", "/shop.Login/Do", "192.0.2.1:1", [][2]string{{"Key", "k"}, {"Key-Bin", "\t"}},
	}
}

// choice is another form of the plain request.
type choice struct {
	by   string
	name string
	with func(c *Choice)
	same bool // it must not get more than the plain request; else it must not count as the plain one
}

func headers(values ...string) func(c *Choice) {
	return func(c *Choice) {
		c.Headers = nil
		for _, value := range values {
			c.Headers = append(c.Headers, [2]string{"Key", value})
		}
	}
}

func forwardedFor(lines ...string) func(c *Choice) {
	return func(c *Choice) {
		c.Peer = "10.0.0.1:1"
		for _, line := range lines {
			c.Headers = append(c.Headers, [2]string{"X-Forwarded-For", line})
		}
	}
}

func untrusted(line string) func(c *Choice) {
	return func(c *Choice) { c.Headers = append(c.Headers, [2]string{"X-Forwarded-For", line}) }
}

func choices() []choice {
	all := []choice{
		{ByHeader, "white space", headers(" k\t"), true},
		{ByHeader, "another case of the name", func(c *Choice) { c.Headers = [][2]string{{"kEY", "k"}} }, true},
		{ByHeader, "no value", headers(), true},
		{ByHeader, "an empty value", headers(""), true},
		{ByHeader, "nothing but white space", headers(" \t"), true},
		{ByHeader, "the value twice", headers("k", "k"), true},
		{ByHeader, "another value before it", headers("x", "k"), true},
		{ByHeader, "10,000 values", headers(slices.Repeat([]string{"k"}, 10_000)...), true},
		{ByHeader, "another case of the value", headers("K"), false},
		{ByHeader, "wide white space", headers("\u00a0k"), false},
		{ByHeader, "an escape", headers("%6B"), false},
		{ByHeader, "no UTF-8", headers("k\xff"), false},
		{ByHeader, "a separator", headers("k|"), false},
		{ByHeader, "a hash tag", headers("{k}"), false},
		{ByHeader, "a long value", headers(strings.Repeat("k", 100_000)), false},
		{ByClient, "a port", func(c *Choice) { c.Peer = "192.0.2.1:2" }, true},
		{ByClient, "an IPv4-mapped address", func(c *Choice) { c.Peer = "[::ffff:192.0.2.1]:1" }, true},
		{ByClient, "a header without a proxy", untrusted("203.0.113.9"), true},
		{ByClient, "the address of a proxy", forwardedFor("192.0.2.1"), true},
		{ByClient, "an address before it", forwardedFor("203.0.113.9, 192.0.2.1"), true},
		{ByClient, "a line before it", forwardedFor("203.0.113.9", "192.0.2.1"), true},
		{ByClient, "other forms", forwardedFor("[::ffff:192.0.2.1]:80"), true},
		{ByClient, "white space and an empty element", forwardedFor(" \t192.0.2.1 , "), true},
		{ByClient, "10,000 lines before it", forwardedFor(append(slices.Repeat([]string{"1.1.1.1"}, 10_000),
			"192.0.2.1")...), true},
		{ByClient, "no address", forwardedFor("unknown, 192.0.2.256"), true},
		{ByClient, "no header of a proxy", forwardedFor(), true},
		{ByClient, "another address", func(c *Choice) { c.Peer = "192.0.2.2:1" }, false},
		{ByClient, "another address of a proxy", forwardedFor("192.0.2.1, 203.0.113.9"), false},
		{ByClient, "no address last", forwardedFor("192.0.2.1, \xff"), false},
		{ByBinary, "the value twice", func(c *Choice) { c.Headers = append(c.Headers, c.Headers...) }, true},
		{ByBinary, "no value", headers(), true},
		{ByRPC, "no slash", func(c *Choice) { c.RPC = "shop.Login/Do" }, true},
		{ByRPC, "another method", func(c *Choice) { c.RPC = "/shop.Login/do" }, false},
		{ByRPC, "another service", func(c *Choice) { c.RPC = "/shop.Login/Do/x" }, false},
	}
	for _, id := range []string{"\n", "\v", "\f", "\r", " ", "\t ", "\x00\t", "\x85", "\xa0", "    ", "\xff\xfe"} {
		with := func(c *Choice) { c.Headers = [][2]string{{"Key-Bin", id}} }
		all = append(all, choice{ByBinary, fmt.Sprintf("%q", id), with, false})
	}
	for _, method := range []string{"post", "Post", "GET", "HEAD", "options", "Options", "optionS", "other"} {
		all = append(all, choice{ByRoute, method, func(c *Choice) { c.Method = method }, true})
	}
	for _, host := range []string{
		"SHOP.example", "shop.example:8080", "shop.example.", "Shop.Example.:80",
	} {
		all = append(all, choice{ByRoute, host, func(c *Choice) { c.Host = host }, true})
	}
	for _, path := range []string{
		"//login", "/login;x", "/;x/login", "/%6Cogin", "/%6cogin", "/login%3Bx", "/./login", "/x/../login",
		"/x/%2e%2e/login", "/x/..;/login", "/%2Flogin", "/x%2F..%2Flogin", `/\login`, `/x\..\login`, "/login%", "/login?x",
		"/" + strings.Repeat("/", 100_000) + "login", "/login" + strings.Repeat(";", 100_000),
		strings.Repeat("/;", 450_000) + "/login",
	} {
		all = append(all, choice{ByRoute, fmt.Sprintf("%.30q", path), func(c *Choice) { c.Path = path }, true})
	}
	for _, other := range []Choice{
		{Path: "/LOGIN"}, {Path: "/login/"}, {Path: "/login/x"}, {Path: "/loginx"}, {Path: "/login\xff"},
		{Path: "/login%00"}, {Path: "/"}, {Path: "/x"}, {Method: "OPTIONS"},
		{Host: "shop.example.org"}, {Host: "xshop.example"}, {Host: "[::1]"},
	} {
		with := func(c *Choice) {
			if c.Method = "POST"; other.Method != "" {
				c.Method = other.Method
			}
			if other.Host != "" {
				c.Host = other.Host
			}
			if other.Path != "" {
				c.Path = other.Path
			}
		}
		all = append(all, choice{ByRoute, fmt.Sprint(other), with, false})
	}
	return all
}

// TestChoices sends a server what a client can choose, in odd forms. No request gets more than the
// plain request would, and none counts as another client's. Each test opens a server with one of the
// limits, as a function that reports whether a request was served.
func TestChoices(t *testing.T, limits []string,
	open func(client *rratelimiter.Client, by string) func(Choice) (served bool)) {
	tested := 0
	for _, c := range choices() {
		if !slices.Contains(limits, c.by) {
			continue
		}
		tested++
		t.Run(c.by+"/"+c.name, func(t *testing.T) {
			Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				send, odd := open(client, c.by), plain()
				c.with(&odd)
				served := send(odd)
				if c.same {
					assert.False(t, send(plain()) && served, "the plain request passes beside it")
				} else {
					assert.True(t, send(plain()), "it counts as the plain request")
				}
			})
			if c.same {
				Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
					send, odd := open(client, c.by), plain()
					c.with(&odd)
					assert.True(t, send(plain()))
					assert.False(t, send(odd), "it passes beside the plain request")
				})
			}
		})
	}
	assert.NotZero(t, tested)
}
