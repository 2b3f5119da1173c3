package ruleset

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Forwarded returns the request that a proxy describes in the headers of r. Its client is unknown, an
// error, if the peer is not a trusted proxy: the peer's address would be that of all clients.
func (s *File) Forwarded(r *http.Request) *Request {
	o := s.HTTP(r)
	if method := lastValue(r, s.forwarded.MethodHeader); method != "" {
		o.Method = httptarget.Method(method)
		o.MethodKey = httptarget.MethodKey(o.Method)
	}
	if host := lastValue(r, s.forwarded.HostHeader); host != "" {
		o.Host = httptarget.Host(strings.TrimSpace(host[strings.LastIndexByte(host, ',')+1:]))
	}
	uri := lastValue(r, s.forwarded.URIHeader)
	o.Path = func(allowSlashes bool) (httptarget.Path, error) { return s.pathOf(uri, allowSlashes) }
	o.Length = -1 // the proxy sends no body
	o.Client = sync.OnceValues(func() (netip.Addr, error) {
		if peer, err := guard.ParseAddr(r.RemoteAddr); err == nil && !guard.Contains(s.address.Trusted, peer) {
			return netip.Addr{}, fmt.Errorf("rules: the proxy %v is not trusted: add it to address.trusted", peer)
		}
		return s.address.Client(r)
	})
	o.ClientKey = func() (string, error) {
		if _, err := o.Client(); err != nil {
			return "", err
		}
		return s.address.Key(r)
	}
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

// pathOf returns the path of a request's URI, which may have a scheme and a host.
func (s *File) pathOf(uri string, allowSlashes bool) (httptarget.Path, error) {
	if uri == "" {
		return httptarget.Path{}, fmt.Errorf("rules: the proxy sent no header %s with the path", s.forwarded.URIHeader)
	}
	path, _, _ := strings.Cut(uri, "?")
	if _, rest, absolute := strings.Cut(path, "://"); absolute && !strings.HasPrefix(path, "/") {
		_, path, _ = strings.Cut(rest, "/")
	}
	p, err := httptarget.ReadPath(path, allowSlashes)
	if err == nil && strings.Contains(path, "#") {
		err = errors.New("the path has a #, which ends it for some servers")
	}
	if err != nil {
		return p, guard.Invalidf("rules: the path %q: %v", rulefile.Clip(path), err)
	}
	return p, nil
}

// HTTP returns a request of HTTP.
func (s *File) HTTP(r *http.Request) *Request {
	address := s.address
	method := httptarget.Method(r.Method)
	return &Request{
		Method: method, MethodKey: httptarget.MethodKey(method), Host: httptarget.Host(r.Host), Length: r.ContentLength,
		Headers:   func() http.Header { return r.Header },
		Client:    sync.OnceValues(func() (netip.Addr, error) { return address.Client(r) }), // many rules may need it
		ClientKey: func() (string, error) { return address.Key(r) },
		Path: func(allowSlashes bool) (httptarget.Path, error) {
			path, err := httptarget.ReadURL(r.URL, allowSlashes)
			if err != nil {
				return path, guard.Invalidf("rules: %v", err)
			}
			return path, nil
		},
	}
}

// Request is a request of HTTP, or a call of gRPC, as rules read it.
type Request struct {
	Method    string                     // of HTTP in upper case; of gRPC the full method
	MethodKey string                     // the method as a key
	Host      string                     // without port and final dot, in lower case
	Headers   func() http.Header         // by the canonical name
	Client    func() (netip.Addr, error) // the client's address
	ClientKey func() (string, error)     // the client's address as a key
	Length    int64                      // of the body, -1 if unknown

	// Path returns the interpretations of the path, or an error if there are none. It is nil for a
	// call of gRPC, whose path is its method.
	Path func(allowSlashes bool) (httptarget.Path, error)
}
