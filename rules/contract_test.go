package rules

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// odd returns a request as a client chose it, nil for one that net/http refuses.
func odd(c guardtest.Choice) *http.Request {
	target, err := url.ParseRequestURI(c.Path)
	if err != nil {
		return nil
	}
	r := &http.Request{Method: c.Method, Host: c.Host, URL: target, RemoteAddr: c.Peer, Header: make(http.Header)}
	for _, h := range c.Headers {
		r.Header.Add(h[0], h[1])
	}
	return r
}

func TestMiddleware_OddRequests_GetNoMoreThanPlainOnes(t *testing.T) {
	guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByClient, guardtest.ByRoute},
		func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
			handler := parsed(t, rulestest.Contract(by)).Middleware(client)(granted)
			return func(c guardtest.Choice) bool {
				r := odd(c)
				return r != nil && serve(handler, r).Code == good
			}
		})
}

// TestForwardAuth_OddRequests_GetNoMoreThanPlainOnes, with the host in a header or in the URI.
func TestForwardAuth_OddRequests_GetNoMoreThanPlainOnes(t *testing.T) {
	for name, describe := range map[string]func(h http.Header, c guardtest.Choice){
		"headers": func(h http.Header, c guardtest.Choice) {
			h["X-Forwarded-Host"], h["X-Forwarded-Uri"] = []string{c.Host}, []string{c.Path}
		},
		"an absolute URI": func(h http.Header, c guardtest.Choice) {
			h["X-Forwarded-Uri"] = []string{"https://" + c.Host + c.Path}
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByClient, guardtest.ByRoute},
				func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
					handler := parsed(t, rulestest.Contract(by)).ForwardAuth(client)
					return func(c guardtest.Choice) bool {
						r := request("GET /auth")
						r.RemoteAddr = "10.0.0.1:9"
						for _, h := range c.Headers {
							r.Header.Add(h[0], h[1])
						}
						r.Header["X-Forwarded-Method"] = []string{c.Method}
						r.Header.Add("X-Forwarded-For", netip.MustParseAddrPort(c.Peer).Addr().String())
						describe(r.Header, c)
						return serve(handler, r).Code == good
					}
				})
		})
	}
}
