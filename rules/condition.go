package rules

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// condition is one alternative of a rule's match. A request meets it if all parts match.
type condition struct {
	pattern
	rpc     bool // a method of gRPC, not a request of HTTP
	headers []header
	methods []string
	ranges  []netip.Prefix
	source  *rulefile.Node // until the rule is decoded
}

// header is a header that a request must have.
type header struct {
	name  string
	value string // "*" for any
}

// errNoValue is the error of a request whose path leaves a wildcard empty.
var errNoValue = guard.Invalidf("rules: a wildcard of the path is empty")

type matchFile struct {
	condition
	pattern, grpc *rulefile.Node
}

var matchFields = map[string]field[matchFile]{
	"pattern": func(_ *decoder, n *rulefile.Node, m *matchFile) { m.pattern = n },
	"grpc":    func(_ *decoder, n *rulefile.Node, m *matchFile) { m.grpc = n },
	"headers": func(d *decoder, n *rulefile.Node, m *matchFile) {
		if n.Tag != rulefile.Mapping {
			d.Wrong(n, "a mapping of headers and their values")
			return
		}
		if len(n.Content)/2 > mostHeaders {
			d.Fail(n, "%d headers, want %d at most", len(n.Content)/2, mostHeaders)
			return
		}
		d.Pairs(n, func(name, value *rulefile.Node) {
			text, _ := d.Text(value, "a text, the header's value, or * for any")
			if text != strings.TrimSpace(text) {
				d.Fail(value, "%q has spaces around it, which no header's value has", rulefile.Clip(text))
			}
			h := header{d.headerName(name, name.Value), text}
			if slices.ContainsFunc(m.headers, func(other header) bool { return other.name == h.name }) {
				d.Fail(name, "the header %s is there twice", h.name)
			}
			m.headers = append(m.headers, h)
		})
	},
	"methods": func(d *decoder, n *rulefile.Node, m *matchFile) { m.methods = d.methods(n) },
	"ranges":  func(d *decoder, n *rulefile.Node, m *matchFile) { m.ranges = d.clientRanges(n) },
}

// mostHeaders is the largest number of headers of a condition.
const mostHeaders = 32

// methods decodes methods of HTTP.
func (d *decoder) methods(n *rulefile.Node) []string {
	var all []string
	const want = "a text, a method like POST"
	d.Texts(n, want, func(n *rulefile.Node, text string) {
		if !isToken(text) || text != strings.ToUpper(text) {
			d.Fail(n, "%q, want %s in capitals", rulefile.Clip(text), want)
		}
		all = append(all, text)
	})
	return all
}

// match decodes the conditions of a rule.
func (d *decoder) match(n *rulefile.Node) []*condition {
	var all []*condition
	one := func(n *rulefile.Node) {
		m := matchFile{pattern: n}
		if n.Tag == rulefile.Mapping {
			m.pattern = nil
			if !rulefile.Fields(d, n, matchFields, &m) {
				return
			}
		}
		m.source = n
		switch {
		case m.pattern != nil && m.grpc != nil:
			d.Fail(n, "pattern and grpc: a request is one or the other, give a list of two")
			return
		case m.grpc != nil && m.methods != nil:
			d.Fail(n, "grpc and methods, which are those of HTTP: leave out methods")
			return
		case m.grpc != nil:
			text, ok := d.Text(m.grpc, wantGRPC)
			if !ok || !d.grpc(m.grpc, text, &m.condition) {
				return
			}
		case m.pattern != nil:
			text, ok := d.Text(m.pattern, wantPattern)
			if !ok {
				return
			}
			var err error
			if m.condition.pattern, err = parsePattern(text); err != nil {
				d.Fail(m.pattern, "the pattern %q: %v", rulefile.Clip(text), err)
				return
			}
			if slices.ContainsFunc(m.segments, hasSlash) && !d.allowSlashes {
				d.Fail(m.pattern, "the pattern %q %s", rulefile.Clip(text), refusedSlash)
			}
			if m.methods != nil && !slices.ContainsFunc(m.methods, m.mayHave) {
				d.Fail(n, "no request is of the pattern's method %s and of one in methods: name methods once", m.method)
			}
		default:
			m.condition.pattern = anyPath
		}
		all = append(all, &m.condition)
	}
	if n.Tag == rulefile.List {
		d.List(n, "a pattern", one)
	} else {
		one(n)
	}
	return all
}

const (
	wantPattern = "a text, a pattern like POST /login, /users/{id} or api.example.com/"
	wantGRPC    = "a text, a method like /shop.Orders/Create or /shop.Orders/*, or * for all"
)

const refusedSlash = "has an escaped slash or a backslash: requests with it are refused, " +
	"unless the file has escaped_slashes: allow"

// anyPath is the pattern of all requests.
var anyPath = pattern{end: endRest}

// grpc decodes the full name of a method of gRPC, which is a path.
func (d *decoder) grpc(n *rulefile.Node, text string, c *condition) bool {
	c.rpc = true
	if text == "*" {
		c.pattern = anyPath
		return true
	}
	service, method, ok := strings.Cut(strings.TrimPrefix(text, "/"), "/")
	if !ok || text[0] != '/' || service == "" || method == "" ||
		strings.ContainsAny(text, " {}%") || strings.Contains(method, "/") {
		d.Fail(n, "%q is no method of gRPC, want %s", rulefile.Clip(text), wantGRPC)
		return false
	}
	c.segments = []string{service, method}
	if method == "*" {
		c.segments[1] = ""
	}
	return true
}

// mayHave reports whether the pattern accepts requests with a method of the list.
func (c *condition) mayHave(method string) bool {
	return c.hasMethod(method) || target.HasMethod(method, c.method)
}

// holds reports whether a request meets the parts of the condition besides the pattern's path and
// host. It returns an error if that depends on the client's address, and the address is unknown.
func (c *condition) holds(r requestInfo, method string) (bool, error) {
	if !c.hasMethod(method) || len(c.methods) > 0 && !hasMethod(c.methods, method) {
		return false, nil
	}
	for _, h := range c.headers {
		values := r.values(h.name)
		if len(values) == 0 || h.value != "*" && !slices.Contains(values, h.value) {
			return false, nil
		}
	}
	if c.rpc && len(c.segments) == 0 && guard.Exempt(grpclimit.Call{Method: method}.Service()) {
		return false, nil // limited only by a rule that names the service
	}
	if len(c.ranges) > 0 {
		client, err := r.client()
		return err == nil && contains(c.ranges, client), err
	}
	return true, nil
}

// hasMethod reports whether a method is one of a list.
func hasMethod(methods []string, method string) bool {
	return slices.ContainsFunc(methods, func(wanted string) bool { return target.HasMethod(wanted, method) })
}
