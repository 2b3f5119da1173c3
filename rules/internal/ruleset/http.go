package ruleset

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

// HTTP returns a request of HTTP.
func (f *File) HTTP(r *http.Request) *Request {
	request := &Request{
		Length:  r.ContentLength,
		Query:   r.URL.RawQuery,
		Headers: func() http.Header { return r.Header },
		Trailer: r.Trailer,
		Client:  sync.OnceValues(func() (netip.Addr, error) { return f.Address.Client(r) }), // many rules may need it
		Address: f.Address,
	}
	path, err := httptarget.ReadURL(r.URL, f.allowSlashes)
	switch request.path = &path; {
	case (f.usesPaths || f.usesQueries) && (strings.Contains(r.URL.RawQuery, "#") || strings.Contains(r.URL.RawPath, "#")):
		request.unreadable = errFragment
	case f.usesPaths && err != nil:
		request.unreadable = identity.Invalidf("rules: %v", err)
	}
	request.setMethod(r.Method)
	request.addHost(r.Host)
	return request
}

// errFragment is the error of a target that other servers end at its number sign, a path or a query.
var errFragment = identity.Invalidf("rules: the target has a #, which ends it for some servers")

// Forwarded returns the request that a proxy describes in the headers of r. Its client is unknown, an
// error, if the peer is not a trusted proxy: the peer's address would be that of all clients.
func (f *File) Forwarded(r *http.Request) *Request {
	o := f.HTTP(r)
	if method := lastValue(r, f.forwarded.MethodHeader); method != "" {
		o.setMethod(method)
	}
	o.Hosts, o.otherHost = nil, false
	hosts := lastValue(r, f.forwarded.HostHeader)
	if host := strings.Trim(hosts[strings.LastIndexByte(hosts, ',')+1:], " \t"); host != "" {
		o.addHost(host)
	}
	uri, err := f.uriOf(r)
	if uri.host != "" {
		o.addHost(uri.host)
	}
	invalidHost := errors.Is(err, limit.ErrInvalidRequest)
	if o.Query, *o.path = uri.query, (httptarget.Path{}); err == nil {
		if *o.path, err = httptarget.ReadPath(uri.path, f.allowSlashes); err != nil {
			err = identity.Invalidf("rules: the path %q: %v", rulefile.Clip(uri.path), err)
		}
	}
	switch o.unreadable = nil; {
	case (f.usesPaths || f.usesQueries) && strings.Contains(uri.path+uri.query, "#"):
		o.unreadable = errFragment
	case err != nil && (f.usesPaths || f.usesHosts && invalidHost):
		o.unreadable = err
	case f.usesHosts && len(o.Hosts) == 0:
		o.unreadable = fmt.Errorf("rules: the proxy sent no header %s with the host", f.forwarded.HostHeader)
	}
	o.Length = -1 // the proxy sends no body
	o.Client = sync.OnceValues(func() (netip.Addr, error) {
		if peer, err := identity.ParseAddr(r.RemoteAddr); err == nil && !identity.Contains(f.Address.Trusted, peer) {
			return netip.Addr{}, fmt.Errorf("rules: the proxy %v is not trusted: add it to address.trusted", peer)
		}
		return f.Address.Client(r)
	})
	return o
}

// lastValue returns the last of a header's values, which the nearest proxy wrote.
func lastValue(r *http.Request, header headerName) string {
	values := r.Header[string(header)]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// uri is the parts of a request's URI that rules read.
type uri struct {
	host string // with its port; "" if the URI has none
	path string

	query string
}

// uriOf returns the URI that a proxy sent: a path, or with a scheme and a host.
func (f *File) uriOf(r *http.Request) (u uri, err error) {
	text := lastValue(r, f.forwarded.URIHeader)
	if text == "" {
		return u, fmt.Errorf("rules: the proxy sent no header %s with the path", f.forwarded.URIHeader)
	}
	u.path, u.query, _ = strings.Cut(text, "?")
	_, rest, absolute := strings.Cut(u.path, "://")
	if !absolute || strings.HasPrefix(u.path, "/") {
		return u, nil
	}
	u.host, u.path, _ = strings.Cut(rest, "/")
	u.host = u.host[strings.LastIndexByte(u.host, '@')+1:]
	if !httptarget.IsHost(u.host) { // a proxy may have joined its own scheme and host with an absolute URI
		return uri{}, identity.Invalidf("rules: the host %q of the URI is invalid", rulefile.Clip(u.host))
	}
	return u, nil
}

func (r *Request) setMethod(method string) {
	r.Method = strings.ToUpper(method) // some servers ignore the case
	r.otherMethod = r.Method != method
}

func (r *Request) addHost(host string) {
	name := httptarget.Host(host)
	r.otherHost = r.otherHost || name != httptarget.WithoutPort(host)
	if !slices.Contains(r.Hosts, name) {
		r.Hosts = append(r.Hosts, name)
	}
}
