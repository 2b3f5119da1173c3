package rls

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// httpRules converts the requests that proxies describe into descriptors of a domain.
type httpRules struct {
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
	path    []string // unescaped, split at each "*"; nil for any
	entries []webEntry
}

// webEntry makes an entry of a descriptor.
type webEntry struct {
	key, value string
	header     string // with the value
	from       string // or the part of the request with the value
}

// web decodes the part http of a file.
func (d *decoder) web(n *rulefile.Node) *httpRules {
	if n == nil {
		return nil
	}
	var file struct {
		OnFailure, Header, MethodHeader, HostHeader, EscapedSlashes, Requests *rulefile.Node

		Trust rulefile.Ranges

		URIHeader *rulefile.Node `file:"uri_header"`
	}
	before := len(d.Problems)
	d.Fields(n, &file)
	w := &httpRules{
		open: d.OneOf(file.OnFailure, "open", "closed") == "open", address: httplimit.Address{Header: d.header(file.Header)},
		methodHeader: d.headerName(file.MethodHeader, "X-Forwarded-Method"),
		hostHeader:   d.headerName(file.HostHeader, "X-Forwarded-Host"),
		uriHeader:    d.headerName(file.URIHeader, "X-Forwarded-Uri"),
		allowSlashes: d.OneOf(file.EscapedSlashes, "refuse", "allow") == "allow",
	}
	w.address.Trusted = file.Trust
	d.List(file.Requests, "a list", func(n *rulefile.Node) { w.routes = append(w.routes, d.route(n, w.allowSlashes)) })
	if len(d.Problems) > before {
		return nil
	}
	if len(w.routes) == 0 {
		d.FailField(n, "requests", "is empty, want at least one descriptor to make of requests")
	}
	if w.usesAddress() && len(w.address.Trusted) == 0 {
		d.FailField(n, "trust",
			"is empty, want the networks of the proxies that report the addresses of their clients: all clients would count as one")
	}
	return w
}

func (w *httpRules) usesAddress() bool {
	return slices.ContainsFunc(w.routes, func(one route) bool { return one.has("address") })
}

// has reports whether an entry uses a part of the request.
func (one *route) has(part string) bool {
	return slices.ContainsFunc(one.entries, func(e webEntry) bool { return e.from == part })
}

func (one *route) usesPath() bool { return one.path != nil || one.has("path") }

// headerName decodes the name of a header, which is a default if the file has none.
func (d *decoder) headerName(n *rulefile.Node, byDefault string) string {
	if n == nil {
		return byDefault
	}
	text := d.header(n)
	if text == "" {
		d.Fail(n, "is empty, want the name of a header")
	}
	return text
}

// header decodes the name of a header.
func (d *decoder) header(n *rulefile.Node) string {
	name := http.CanonicalHeaderKey(d.text(n))
	if name == "Host" {
		d.Fail(n, "is %q, which is no header of a request here: write from: host, or host in place of the header", name)
	}
	return name
}

func (d *decoder) route(n *rulefile.Node, allowSlashes bool) route {
	var file struct{ Method, Host, Path, Descriptor *rulefile.Node }
	d.Fields(n, &file)
	one := route{method: httptarget.Method(d.text(file.Method)), host: httptarget.Host(d.text(file.Host))}
	if text := d.text(file.Host); text != "" {
		if err := httptarget.CheckHost(text); err != nil {
			d.Fail(file.Host, "%v", err)
		}
	}
	if file.Path != nil {
		text := d.text(file.Path)
		if _, err := httptarget.ReadPath(text, allowSlashes); err != nil {
			d.Fail(file.Path, "is %q, with which all requests are refused: %v", rulefile.Clip(text), err)
		} else if err := httptarget.CheckPath(text); err != nil {
			d.Fail(file.Path, "%v", err)
		} else if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "*") {
			d.Fail(file.Path, "is %q, which no request has: begin it with a slash or a *", rulefile.Clip(text))
		}
		for part := range strings.SplitSeq(text, "*") { // an escaped star is no wildcard
			one.path = append(one.path, httptarget.Unescape(part))
		}
	}
	d.List(file.Descriptor, "a list", func(n *rulefile.Node) { one.entries = append(one.entries, d.webEntry(n)) })
	if len(one.entries) == 0 && len(d.Problems) == 0 {
		d.FailField(n, "descriptor", "is empty, want its entries")
	}
	return one
}

func (d *decoder) webEntry(n *rulefile.Node) webEntry {
	var file struct{ Key, Value, Header, From *rulefile.Node }
	d.Fields(n, &file)
	ways := 0
	for _, way := range []*rulefile.Node{file.Value, file.Header, file.From} {
		if way != nil {
			ways++
		}
	}
	e := webEntry{
		key: d.text(file.Key), value: d.text(file.Value),
		header: d.header(file.Header),
		from:   d.OneOf(file.From, "address", "host", "method", "path"),
	}
	if len(d.Problems) == 0 && (e.key == "" || ways != 1) {
		d.Fail(n, "wants a key, and one of value, header and from")
	}
	return e
}

// descriptor returns the descriptor of a route, nil if the request lacks a header for it.
func (w *httpRules) descriptor(r *http.Request, one *route, o *original,
	path string) (*common.RateLimitDescriptor, error) {
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

// value returns the value of an entry for a request, or that the request has none.
func (w *httpRules) value(r *http.Request, e webEntry, o *original, path string) (value string, ok bool, err error) {
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
		return httptarget.MethodKey(o.method), true, nil
	case "path":
		return path, true, nil
	}
	return e.value, true, nil
}
