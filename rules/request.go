package rules

import (
	"net/http"
	"net/netip"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// requestInfo is a request of HTTP or gRPC as rules read it.
type requestInfo interface {
	method() string                // of HTTP in upper case; of gRPC the full method
	methodKey() string             // the method as a key
	host() string                  // without port and final dot, in lower case
	values(header string) []string // by the canonical name
	client() (netip.Addr, error)   // the client's address
	clientKey() (string, error)    // the client's address as a key
	length() int64                 // of the body, -1 if unknown
}

// cachedAddress caches the address of a client, which many rules may need.
type cachedAddress struct {
	known bool
	addr  netip.Addr
	err   error
}

func (c *cachedAddress) set(addr netip.Addr, err error) { *c = cachedAddress{true, addr, err} }

// lastHeader caches the last header, since many rules may name the same one.
type lastHeader struct {
	name   string
	values []string
}

func (l *lastHeader) of(headers http.Header, name string) []string {
	if l.name != name {
		l.name, l.values = name, headers[name]
	}
	return l.values
}

// httpRequest is a request of HTTP.
type httpRequest struct {
	*http.Request
	address *httplimit.Address
	from    cachedAddress
	last    lastHeader
}

func (a *httpRequest) method() string    { return target.Method(a.Method) }
func (a *httpRequest) methodKey() string { return target.MethodKey(a.method()) }

func (a *httpRequest) host() string                  { return target.Host(a.Host) }
func (a *httpRequest) values(header string) []string { return a.last.of(a.Header, header) }

func (a *httpRequest) client() (netip.Addr, error) {
	if !a.from.known {
		a.from.set(a.address.Client(a.Request))
	}
	return a.from.addr, a.from.err
}

func (a *httpRequest) clientKey() (string, error) { return a.address.Key(a.Request) }
func (a *httpRequest) length() int64              { return a.ContentLength }
