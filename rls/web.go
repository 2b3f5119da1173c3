package rls

import (
	"bytes"
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	pathpkg "path"
	"slices"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// web says how the requests that proxies ask about become descriptors of a domain.
type web struct {
	open    bool // requests pass while Redis does not answer, and where it cannot be told who asks
	address httplimit.Address
	routes  []route
}

// route makes a descriptor of requests that match.
type route struct {
	method  string
	host    string
	path    [][]byte // cut at each "*"; nil for any
	entries []webEntry
}

// webEntry makes an entry of a descriptor.
type webEntry struct {
	key, value string
	header     string // whose value counts
	from       string // or what of the request
}

var requestParts = []string{"address", "host", "method", "path"}

var webFields = fields[web]{
	"on_failure": func(r *reader, n *yaml.Node, path string, w *web) {
		w.open = r.oneOf(n, path, "open", "closed") == "open"
	},
	"header": func(r *reader, n *yaml.Node, path string, w *web) { w.address.Header = r.text(n, path) },
	"trust": func(r *reader, n *yaml.Node, path string, w *web) {
		r.list(n, path, func(n *yaml.Node, path string) { w.address.Trusted = append(w.address.Trusted, r.network(n, path)) })
	},
	"requests": func(r *reader, n *yaml.Node, path string, w *web) {
		r.list(n, path, func(n *yaml.Node, path string) { w.routes = append(w.routes, r.route(n, path)) })
	},
}

// web reads the part of a file that is for proxies without a protocol of their own.
func (r *reader) web(n *yaml.Node, path string) *web {
	made := new(web)
	before := len(r.errs)
	mapping(r, n, path, webFields, made)
	if len(r.errs) > before {
		return nil
	}
	if len(made.routes) == 0 {
		r.fail(n, join(path, "requests"), "is empty, want at least one descriptor to make of requests")
	}
	needs := slices.ContainsFunc(made.routes, func(one route) bool {
		return slices.ContainsFunc(one.entries, func(e webEntry) bool { return e.from == "address" })
	})
	if needs && len(made.address.Trusted) == 0 {
		r.fail(n, join(path, "trust"), "is empty, want the networks of the proxies that tell their clients' addresses: all clients would count as one")
	}
	return made
}

func (r *reader) network(n *yaml.Node, path string) netip.Prefix {
	text := r.text(n, path)
	network, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			r.fail(n, path, "is %q, want an address or a network, as 10.0.0.0/8", short(text))
			return netip.Prefix{}
		}
		network = netip.PrefixFrom(addr, addr.BitLen())
	}
	return network
}

var routeFields = fields[route]{
	"method": func(r *reader, n *yaml.Node, path string, made *route) {
		made.method = strings.ToUpper(r.text(n, path))
	},
	"host": func(r *reader, n *yaml.Node, path string, made *route) { made.host = strings.ToLower(r.text(n, path)) },
	"path": func(r *reader, n *yaml.Node, path string, made *route) {
		made.path = bytes.Split([]byte(r.text(n, path)), []byte("*"))
	},
	"descriptor": func(r *reader, n *yaml.Node, path string, made *route) {
		r.list(n, path, func(n *yaml.Node, path string) { made.entries = append(made.entries, r.webEntry(n, path)) })
	},
}

func (r *reader) route(n *yaml.Node, path string) (made route) {
	mapping(r, n, path, routeFields, &made)
	if len(made.entries) == 0 && len(r.errs) == 0 {
		r.fail(n, join(path, "descriptor"), "is empty, want its entries")
	}
	return made
}

// entryFile is the fields of an entry, of which one says what it is made of.
type entryFile struct {
	webEntry
	ways int
}

var entryFields = fields[entryFile]{
	"key":   func(r *reader, n *yaml.Node, path string, f *entryFile) { f.key = r.text(n, path) },
	"value": func(r *reader, n *yaml.Node, path string, f *entryFile) { f.value = r.text(n, path); f.ways++ },
	"header": func(r *reader, n *yaml.Node, path string, f *entryFile) {
		f.header = http.CanonicalHeaderKey(r.text(n, path))
		f.ways++
	},
	"from": func(r *reader, n *yaml.Node, path string, f *entryFile) {
		f.from = r.oneOf(n, path, requestParts...)
		f.ways++
	},
}

func (r *reader) webEntry(n *yaml.Node, path string) webEntry {
	f := entryFile{}
	mapping(r, n, path, entryFields, &f)
	if len(r.errs) == 0 && (f.key == "" || f.ways != 1) {
		r.fail(n, path, "wants a key, and one of value, header and from")
	}
	return f.webEntry
}

// original is the request that a proxy asks about.
type original struct{ method, host, path string }

// originalOf reads what proxies say of it: Traefik and Caddy by X-Forwarded-Method, -Host and -Uri, nginx by what its configuration
// sets, those or X-Original-Method and X-Original-URI.
func originalOf(r *http.Request) original {
	h := r.Header
	o := original{
		method: cmp.Or(h.Get("X-Forwarded-Method"), h.Get("X-Original-Method"), r.Method),
		host:   strings.ToLower(cmp.Or(h.Get("X-Forwarded-Host"), r.Host)),
		path:   cmp.Or(h.Get("X-Forwarded-Uri"), h.Get("X-Original-Uri"), h.Get("X-Original-Url")),
	}
	o.path, _, _ = strings.Cut(o.path, "#") // which belongs to no request, and servers cut off
	if u, err := url.ParseRequestURI(o.path); err == nil {
		o.path = u.Path
	} else {
		o.path, _, _ = strings.Cut(o.path, "?")
	}
	o.path = plain(o.path)
	return o
}

// plain is a path as servers see it, so that no other words for it pass by its limit: without empty and dotted parts.
func plain(path string) string {
	if !strings.HasPrefix(path, "/") {
		return path
	}
	clean := pathpkg.Clean(path)
	if strings.HasSuffix(path, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// descriptors is what a request becomes. A descriptor that wants a header that the request has not is left out.
func (w *web) descriptors(r *http.Request) ([]*common.RateLimitDescriptor, error) {
	o := originalOf(r)
	var all []*common.RateLimitDescriptor
	for i := range w.routes {
		one := &w.routes[i]
		if one.method != "" && one.method != o.method || one.host != "" && one.host != o.host || one.path != nil && !matches(one.path, o.path) {
			continue
		}
		made := new(common.RateLimitDescriptor)
		for _, e := range one.entries {
			value, ok, err := w.value(r, e, o)
			if err != nil {
				return nil, err
			}
			if !ok {
				made = nil
				break
			}
			made.Entries = append(made.Entries, &common.RateLimitDescriptor_Entry{Key: e.key, Value: value})
		}
		if made != nil {
			all = append(all, made)
		}
	}
	return all, nil
}

func matches(pattern [][]byte, text string) bool {
	if len(pattern) == 1 {
		return string(pattern[0]) == text
	}
	return matchesWild(pattern, []byte(text))
}

// value is what an entry says of a request, or that the request has none.
func (w *web) value(r *http.Request, e webEntry, o original) (value string, ok bool, err error) {
	if e.header != "" {
		values := r.Header.Values(e.header)
		return strings.Join(values, ","), len(values) > 0, nil
	}
	switch e.from {
	case "address":
		value, err = w.address.Key(r)
		return value, err == nil, err
	case "host":
		return o.host, true, nil
	case "method":
		return o.method, true, nil
	case "path":
		return o.path, true, nil
	}
	return e.value, true, nil
}

// auth answers a proxy that asks whether a request may pass.
func (s *Server) auth(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("domain")
	d := s.rules.Load().domains[name]
	if d == nil || d.web == nil {
		s.metrics.domainNotFound.Add(1)
		http.Error(w, "no file has a domain of this name with http", http.StatusNotFound)
		return
	}
	denied := http.StatusTooManyRequests
	switch r.URL.Query().Get("denied") {
	case "", "429":
	case "403":
		denied = http.StatusForbidden
	case "401":
		denied = http.StatusUnauthorized
	default:
		http.Error(w, "denied wants 429, 403 or 401", http.StatusBadRequest)
		return
	}
	descriptors, err := d.web.descriptors(r)
	var response *ratelimit.RateLimitResponse
	if err == nil && len(descriptors) > 0 {
		response, err = s.answer(r.Context(), d, &ratelimit.RateLimitRequest{Domain: name, Descriptors: descriptors})
	}
	switch {
	case err != nil && d.web.open:
		s.config.Log.Debug("rls: let pass, since nobody could decide", "domain", name, "error", err)
	case err != nil:
		problem(w, "temporary-reduced-capacity", "Requests cannot be admitted at the moment.", http.StatusServiceUnavailable)
	default:
		answer(w, response, denied)
	}
}

// answer tells a proxy what was decided.
func answer(w http.ResponseWriter, response *ratelimit.RateLimitResponse, denied int) {
	for _, header := range headersOf(response) {
		w.Header().Set(header.GetKey(), header.GetValue())
	}
	if response.GetOverallCode() != ratelimit.RateLimitResponse_OVER_LIMIT {
		return // 200
	}
	if reset := w.Header().Get("RateLimit-Reset"); reset != "" {
		w.Header().Set("Retry-After", reset)
	}
	problem(w, "quota-exceeded", "The request is over its limit.", denied)
}

// problem writes a problem document (RFC 9457).
func problem(w http.ResponseWriter, kind, title string, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"type":"https://iana.org/assignments/http-problem-types#` + kind + `","title":"` + title + `"}` + "\n"))
}
