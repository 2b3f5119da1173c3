package rls

import (
	"bytes"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// web converts the requests that proxies ask about into descriptors of a domain.
type web struct {
	open    bool // requests pass if Redis does not answer, or if the client is unknown
	address httplimit.Address
	routes  []route

	methodHeader, hostHeader, uriHeader string // with which proxies describe a request

	allowSlashes bool        // paths may have escaped slashes and backslashes
	warned       atomic.Bool // about a peer that is not a trusted proxy
}

// route makes a descriptor of matching requests.
type route struct {
	method  string
	host    string
	path    [][]byte // unescaped, split at each "*"; nil for any
	pathAt  *rulefile.Node
	entries []webEntry
}

// webEntry makes an entry of a descriptor.
type webEntry struct {
	key, value string
	header     string // with the value
	from       string // or the part of the request with the value
}

var requestParts = []string{"address", "host", "method", "path"}

var webFields = map[string]field[web]{
	"on_failure": func(r *reader, n *rulefile.Node, w *web) {
		w.open = r.oneOf(n, "open", "closed") == "open"
	},
	"header":        func(r *reader, n *rulefile.Node, w *web) { w.address.Header = r.text(n) },
	"method_header": func(r *reader, n *rulefile.Node, w *web) { w.methodHeader = r.headerName(n) },
	"host_header":   func(r *reader, n *rulefile.Node, w *web) { w.hostHeader = r.headerName(n) },
	"uri_header":    func(r *reader, n *rulefile.Node, w *web) { w.uriHeader = r.headerName(n) },
	"escaped_slashes": func(r *reader, n *rulefile.Node, w *web) {
		w.allowSlashes = r.oneOf(n, "refuse", "allow") == "allow"
	},
	"trust": func(r *reader, n *rulefile.Node, w *web) {
		r.List(n, "a list", func(n *rulefile.Node) { w.address.Trusted = append(w.address.Trusted, r.network(n)) })
	},
	"requests": func(r *reader, n *rulefile.Node, w *web) {
		r.List(n, "a list", func(n *rulefile.Node) { w.routes = append(w.routes, r.route(n)) })
	},
}

// web decodes the part http of a file.
func (r *reader) web(n *rulefile.Node) *web {
	made := &web{methodHeader: methodHeader, hostHeader: hostHeader, uriHeader: uriHeader}
	before := len(r.Problems)
	rulefile.Fields(r, n, webFields, made)
	if len(r.Problems) > before {
		return nil
	}
	if len(made.routes) == 0 {
		r.FailField(n, "requests", "is empty, want at least one descriptor to make of requests")
	}
	if made.looksAtAddresses() && len(made.address.Trusted) == 0 {
		r.FailField(n, "trust",
			"is empty, want the networks of the proxies that report the addresses of their clients: all clients would count as one")
	}
	for _, one := range made.routes {
		text := string(bytes.Join(one.path, []byte("*")))
		if _, err := target.ReadPath(text, made.allowSlashes); err != nil {
			r.Fail(one.pathAt, "is %q, with which all requests are refused: %v", rulefile.Clip(text), err)
		}
	}
	return made
}

func (w *web) looksAtAddresses() bool {
	return slices.ContainsFunc(w.routes, func(one route) bool { return one.has("address") })
}

// has reports whether an entry uses a part of the request.
func (one *route) has(part string) bool {
	return slices.ContainsFunc(one.entries, func(e webEntry) bool { return e.from == part })
}

func (one *route) looksAtPaths() bool { return one.path != nil || one.has("path") }

// headerName decodes the name of a header.
func (r *reader) headerName(n *rulefile.Node) string {
	text := r.text(n)
	if text == "" {
		r.Fail(n, "is empty, want the name of a header")
	}
	return http.CanonicalHeaderKey(text)
}

func (r *reader) network(n *rulefile.Node) netip.Prefix {
	text := r.text(n)
	network, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			r.Fail(n, "is %q, want an address or a network, as 10.0.0.0/8", rulefile.Clip(text))
			return netip.Prefix{}
		}
		network = netip.PrefixFrom(addr, addr.BitLen())
	}
	return network
}

var routeFields = map[string]field[route]{
	"method": func(r *reader, n *rulefile.Node, made *route) {
		made.method = target.Method(r.text(n))
	},
	"host": func(r *reader, n *rulefile.Node, made *route) { made.host = target.Host(r.text(n)) },
	"path": func(r *reader, n *rulefile.Node, made *route) {
		made.pathAt = n
		made.path = bytes.Split([]byte(target.Unescape(r.text(n))), []byte("*"))
	},
	"descriptor": func(r *reader, n *rulefile.Node, made *route) {
		r.List(n, "a list", func(n *rulefile.Node) { made.entries = append(made.entries, r.webEntry(n)) })
	},
}

func (r *reader) route(n *rulefile.Node) (made route) {
	rulefile.Fields(r, n, routeFields, &made)
	if len(made.entries) == 0 && len(r.Problems) == 0 {
		r.FailField(n, "descriptor", "is empty, want its entries")
	}
	return made
}

// entryFile is an entry in a file. One of its fields defines the value.
type entryFile struct {
	webEntry
	ways int
}

var entryFields = map[string]field[entryFile]{
	"key":   func(r *reader, n *rulefile.Node, f *entryFile) { f.key = r.text(n) },
	"value": func(r *reader, n *rulefile.Node, f *entryFile) { f.value = r.text(n); f.ways++ },
	"header": func(r *reader, n *rulefile.Node, f *entryFile) {
		f.header = http.CanonicalHeaderKey(r.text(n))
		f.ways++
	},
	"from": func(r *reader, n *rulefile.Node, f *entryFile) {
		f.from = r.oneOf(n, requestParts...)
		f.ways++
	},
}

func (r *reader) webEntry(n *rulefile.Node) webEntry {
	f := entryFile{}
	rulefile.Fields(r, n, entryFields, &f)
	if len(r.Problems) == 0 && (f.key == "" || f.ways != 1) {
		r.Fail(n, "wants a key, and one of value, header and from")
	}
	return f.webEntry
}

// descriptor returns the descriptor of a route, nil if the request lacks a header for it.
func (w *web) descriptor(r *http.Request, one *route, o *original, path string) (*common.RateLimitDescriptor, error) {
	made := new(common.RateLimitDescriptor)
	for _, e := range one.entries {
		value, ok, err := w.value(r, e, o, path)
		if err != nil || !ok {
			return nil, err
		}
		made.Entries = append(made.Entries, &common.RateLimitDescriptor_Entry{Key: e.key, Value: value})
	}
	return made, nil
}

func matches(pattern [][]byte, text string) bool {
	if len(pattern) == 1 {
		return string(pattern[0]) == text
	}
	return matchesWild(pattern, []byte(text))
}

// value returns the value of an entry for a request, or that the request has none.
func (w *web) value(r *http.Request, e webEntry, o *original, path string) (value string, ok bool, err error) {
	if e.header != "" {
		values := r.Header.Values(e.header)
		if len(values) > 1 {
			return "", false, guard.Invalidf("rls: %d values of the header %s, want one", len(values), e.header)
		}
		return strings.Join(values, ""), len(values) > 0, nil
	}
	switch e.from {
	case "address":
		value, err = w.address.Key(r)
		return value, err == nil, err
	case "host":
		return o.host, true, nil
	case "method":
		return target.MethodKey(o.method), true, nil
	case "path":
		return path, true, nil
	}
	return e.value, true, nil
}
