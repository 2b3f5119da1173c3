package ruleset

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// condition is one alternative of a rule's match. A request meets it if all parts match.
type condition struct {
	pattern
	rpc     bool // a method of gRPC, not a request of HTTP
	headers []header
	methods []method
	ranges  []netip.Prefix
}

// header is a header that a request must have.
type header struct {
	name  headerName
	value string // "*" for any
}

// errNoValue is the error of a request whose path leaves a wildcard empty.
var errNoValue = guard.Invalidf("rules: a wildcard of the path is empty")

const maxHeaders = 32

func (d *decoder) headers(n *rulefile.Node) (all []header) {
	switch {
	case n == nil:
		return nil
	case n.Tag != rulefile.Mapping:
		d.Wrong(n, "a mapping of headers and their values")
		return nil
	case len(n.Content)/2 > maxHeaders:
		d.Fail(n, "%d headers, want %d at most", len(n.Content)/2, maxHeaders)
		return nil
	}
	d.Pairs(n, func(name, value *rulefile.Node) {
		text, _ := d.Text(value, "a text, the header's value, or * for any")
		h := header{value: text}
		d.Parse(name, name.Value, &h.name)
		d.headerValue(value, text, h.name)
		if slices.ContainsFunc(all, func(other header) bool { return other.name == h.name }) {
			d.Fail(name, "the header %s is there twice", h.name)
		}
		all = append(all, h)
	})
	return all
}

// headerValue reports a value that no header has.
func (d *decoder) headerValue(n *rulefile.Node, text string, name headerName) {
	switch {
	case name.isBinary():
	case text != strings.Trim(text, " \t"):
		d.Fail(n, "%q has spaces around it, which no header's value has", rulefile.Clip(text))
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		d.Fail(n, "%q has a control character, which no header's value has", rulefile.Clip(text))
	}
}

func (d *decoder) conditions(n *rulefile.Node) (all []*condition) {
	if n.Tag != rulefile.List {
		return []*condition{d.condition(n)}
	}
	d.List(n, "a pattern", func(n *rulefile.Node) { all = append(all, d.condition(n)) })
	return all
}

func (d *decoder) condition(n *rulefile.Node) *condition {
	var file struct {
		Pattern, Headers, Methods *rulefile.Node
		Ranges                    clientRanges
		GRPC                      *rulefile.Node `file:"grpc"`
	}
	c := &condition{pattern: anyPath}
	if n.Tag != rulefile.Mapping {
		file.Pattern = n
	} else if !d.Fields(n, &file) {
		return c
	}
	c.headers, c.ranges = d.headers(file.Headers), file.Ranges
	c.methods = rulefile.ListOf[method](&d.Decoder, file.Methods)
	switch {
	case file.Pattern != nil && file.GRPC != nil:
		d.Fail(n, "pattern and grpc: a request is one or the other, give a list of two")
	case file.GRPC != nil && file.Methods != nil:
		d.Fail(n, "grpc and methods, which are those of HTTP: leave out methods")
	case file.GRPC != nil:
		d.grpc(file.GRPC, c)
	case file.Pattern != nil:
		if c.pattern = d.pattern(file.Pattern); c.methods != nil && !slices.ContainsFunc(c.methods, c.mayHave) {
			d.Fail(n, "no request is of the pattern's method %s and of one in methods: name methods once", c.method)
		}
	}
	d.checkHeaders(n, c)
	return c
}

func (d *decoder) pattern(n *rulefile.Node) pattern {
	text, ok := d.Text(n, "a text, a pattern like POST /login, /users/{id} or api.example.com/")
	if !ok {
		return anyPath
	}
	p, _ := d.parsePattern(n, "pattern", text)
	return p
}

// parsePattern parses a pattern, and reports whether requests can match it.
func (d *decoder) parsePattern(n *rulefile.Node, kind, text string) (pattern, bool) {
	p, err := parsePattern(text)
	if err != nil {
		d.Fail(n, "the %s %q: %v", kind, rulefile.Clip(text), err)
		return anyPath, false
	}
	if !d.allowSlashes && slices.ContainsFunc(p.segments, hasSlash) {
		const reason = "the %s %q has an escaped slash or a backslash: requests with it are refused, " +
			"unless the file has escaped_slashes: allow"
		d.Fail(n, reason, kind, rulefile.Clip(text))
		return p, false
	}
	return p, true
}

const wantGRPC = "a text, a method like /shop.Orders/Create or /shop.Orders/*, or * for all"

var anyPath = pattern{end: endRest}

// grpc decodes the full name of a method of gRPC, which is a path.
func (d *decoder) grpc(n *rulefile.Node, c *condition) {
	c.rpc = true
	text, ok := d.Text(n, wantGRPC)
	if !ok || text == "*" {
		return
	}
	service, method, ok := strings.Cut(strings.TrimPrefix(text, "/"), "/")
	if !ok || text[0] != '/' || service == "" || method == "" ||
		strings.ContainsAny(text, " {}%") || strings.Contains(method, "/") {
		d.Fail(n, "%q is no method of gRPC, want %s", rulefile.Clip(text), wantGRPC)
		return
	}
	if method == "*" {
		method = ""
	}
	c.pattern = pattern{segments: []string{service, method}}
}

// mayHave reports whether the pattern accepts requests with a method of the list.
func (c *condition) mayHave(m method) bool {
	return c.hasMethod(string(m)) || httptarget.HasMethod(string(m), c.method)
}

// accepts reports whether a request meets the parts of the condition besides the pattern's path and
// host. The request is exact if it does so in the spelling of the file: a server may read another
// spelling as another request. It returns an error if that depends on the client's address, and the address is unknown.
func (c *condition) accepts(r *Request) (ok, exact bool, unknown error) {
	if !c.hasMethod(r.Method) || len(c.methods) > 0 && !hasMethod(c.methods, r.Method) {
		return false, false, nil
	}
	exact = (c.method == "" && len(c.methods) == 0 || !r.otherMethod) &&
		(c.host == "" || !r.otherHost && len(r.Hosts) == 1)
	for _, h := range c.headers {
		has, only := r.valuesOf(string(h.name)).has(h.value)
		if !has {
			return false, false, nil
		}
		exact = exact && only
	}
	if c.rpc && len(c.segments) == 0 && guard.Exempt(r.Method) {
		return false, false, nil // limited only by a rule that names the service
	}
	if len(c.ranges) > 0 {
		client, err := r.Client()
		return err == nil && guard.Contains(c.ranges, client), exact && err == nil, err
	}
	return true, exact, nil
}

// clientRanges are ranges of clients' addresses.
type clientRanges []netip.Prefix

// UnmarshalNode decodes ranges, and reports those that have no clients.
func (r *clientRanges) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	for _, network := range rulefile.ListOf[rulefile.Range](d, n) {
		if guard.IsTranslation(network.Prefix) {
			d.Fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
		*r = append(*r, network.Prefix)
	}
}
