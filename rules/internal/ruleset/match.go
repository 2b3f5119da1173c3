package ruleset

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// matcher finds the rules of a request. It has the conditions of all rules in order, by the first
// segment of their paths.
type matcher struct {
	bySegment map[string][]entry
	others    []entry // any first segment, or none
	size      int
}

type entry struct {
	place     int // among the conditions of all rules
	rule      int
	bans      bool // the rule only bans
	condition *condition
}

// match is a rule of a request, with the condition that the request meets.
type match struct {
	rule      int
	condition *condition
	unknown   error // why it is unknown whether the request meets the condition; nil if it does
	exact     bool  // the request meets it in the spelling of the file
}

// add adds a condition. Rules must be added in order.
func (m *matcher) add(index int, bans bool, c *condition) {
	e := entry{m.size, index, bans, c}
	m.size++
	if len(c.segments) == 0 || c.segments[0] == "" {
		m.others = append(m.others, e)
		return
	}
	if m.bySegment == nil {
		m.bySegment = make(map[string][]entry)
	}
	m.bySegment[c.segments[0]] = append(m.bySegment[c.segments[0]], e)
}

// find returns the rules of a request in order, all of them or only the first. Each rule appears
// once, with the first condition that the request meets. If a condition is on an unknown address, the
// rule decides by its failure mode, unless another condition of it is met. A rule that only bans has no
// failure mode, and does not decide then. Such a rule is not the only one, nor is a rule that the
// request meets in another spelling: those behind it decide too.
func (m *matcher) find(request *Request, segments []string, all bool) []match {
	first, others := m.bySegment[segments[0]], m.others
	var found []match
	var last *match
	for len(first)+len(others) > 0 {
		from := &first
		if len(first) == 0 || len(others) > 0 && others[0].place < first[0].place {
			from = &others
		}
		e := &(*from)[0]
		*from = (*from)[1:]
		sameRule := last != nil && last.rule == e.rule
		switch {
		case last != nil && !sameRule && !all && last.exact:
			return found
		case sameRule && last.unknown == nil && last.exact || !e.condition.hasPath(segments),
			e.condition.host != "" && !slices.Contains(request.Hosts, e.condition.host):
			continue
		}
		accepts, exact, err := e.condition.accepts(request)
		switch {
		case sameRule && accepts && (exact || last.unknown != nil):
			*last = match{e.rule, e.condition, nil, exact}
		case !sameRule && (accepts || err != nil && !e.bans):
			found = append(found, match{e.rule, e.condition, err, exact})
			last = &found[len(found)-1]
		}
	}
	return found
}

// pattern is a pattern of net/http's ServeMux, such as "GET api.example.com/users/{id}": a method,
// a host and a path. Method and host are optional, and GET includes HEAD. A wildcard is {name} for
// a segment, {name...} for the rest, or {$} for the end after a slash. A path that ends in a slash
// matches all paths that begin with it. Unlike those of a ServeMux, patterns may overlap in any
// way.
type pattern struct {
	method   string
	host     string
	segments []string       // unescaped; "" for a wildcard
	end      ending         // what follows the segments
	wild     map[string]int // the segment of each wildcard
	rest     string         // the name of a {name...} wildcard; "" for none
}

type ending int

const (
	endHere  ending = iota // nothing
	endSlash               // a slash
	endRest                // a slash and any rest
)

func parsePattern(text string) (p pattern, err error) {
	method, rest, found := strings.Cut(text, " ")
	if found {
		rest = strings.TrimLeft(rest, " \t")
		if !isToken(method) {
			return p, fmt.Errorf("%q is no method", rulefile.Clip(method))
		}
		if method != strings.ToUpper(method) {
			return p, fmt.Errorf("the method %q matches no request: write %s", method, strings.ToUpper(method))
		}
		p.method = method
	} else {
		rest = text
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return p, errors.New("it has no path: write a slash behind the host, or in front of the path")
	}
	host, rest := rest[:slash], rest[slash:]
	if p.host = httptarget.Host(host); host != "" {
		if err := httptarget.CheckHost(host); err != nil {
			return p, err
		}
	}
	if err := httptarget.CheckPath(rest); err != nil {
		return p, err
	}
	if strings.Contains(rest, "//") {
		return p, fmt.Errorf("the path %q has an empty segment: write one slash", rulefile.Clip(rest))
	}
	if _, err := httptarget.ReadPath(rest, true); err != nil {
		return p, fmt.Errorf("%w: requests for %q are refused", err, rulefile.Clip(rest))
	}
	return p, p.parsePath(rest[1:])
}

func (p *pattern) parsePath(rest string) error {
	p.segments = make([]string, 0, strings.Count(rest, "/")+1)
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && !more {
			p.end = endRest
			return nil
		}
		name, opened := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		if opened != closed || !opened && strings.ContainsAny(segment, "{}") {
			return fmt.Errorf("the segment %q, want a wildcard as a whole segment, as /{id}/", rulefile.Clip(segment))
		}
		switch {
		case !opened:
			text, err := url.PathUnescape(segment)
			if err != nil {
				return fmt.Errorf("the segment %q is not escaped as in a URL", rulefile.Clip(segment))
			}
			p.segments = append(p.segments, text)
			continue
		case name == "$" && !more:
			p.end = endSlash
			return nil
		}
		name, toEnd := strings.CutSuffix(name, "...")
		if !isIdentifier(name) {
			return fmt.Errorf("the wildcard %q, want a name of letters, digits and underscores, or {$} at the end",
				rulefile.Clip(segment))
		}
		if _, twice := p.wild[name]; twice {
			return fmt.Errorf("the wildcard {%s} is there twice", rulefile.Clip(name))
		}
		if toEnd && more {
			return fmt.Errorf("%s is not at the end", rulefile.Clip(segment))
		}
		if p.wild == nil {
			p.wild = make(map[string]int)
		}
		p.wild[name] = len(p.segments)
		if toEnd {
			p.end, p.rest = endRest, name
			return nil
		}
		p.segments = append(p.segments, "")
	}
	return nil
}

func isIdentifier(name string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
	return name != "" && strings.Trim(name, characters) == "" && (name[0] < '0' || name[0] > '9')
}

// wildcard returns the value of a wildcard in a path that the pattern matches.
func (p *pattern) wildcard(segments []string, name string) string {
	at, ok := p.wild[name]
	if !ok || at >= len(segments) {
		return ""
	}
	if name == p.rest {
		return strings.Join(segments[at:], "/")
	}
	return segments[at]
}

// segmentsOf returns the segments of a path, unescaped as by a ServeMux. If the path ends in a slash, the
// last one is empty.
func segmentsOf(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = text
		}
	}
	return segments
}

func (p *pattern) hasPath(segments []string) bool {
	extra := len(segments) - len(p.segments)
	if extra < 0 {
		return false
	}
	for i, want := range slices.Backward(p.segments) { // paths differ most at their ends
		if want != segments[i] && want != "" {
			return false
		}
	}
	switch p.end {
	case endSlash:
		return extra == 1 && segments[len(p.segments)] == ""
	case endRest:
		return extra > 0
	}
	return extra == 0 && segments[len(segments)-1] != "" // a wildcard matches no empty segment
}

func (p *pattern) hasMethod(method string) bool {
	return p.method == "" || httptarget.HasMethod(p.method, method)
}

// hasSlash reports whether an unescaped segment has a slash or a backslash.
func hasSlash(segment string) bool { return strings.ContainsAny(segment, `/\`) }

// anyOf reports whether a pattern matches all paths, without a wildcard.
func (p *pattern) anyOf() bool { return len(p.segments) == 0 && p.end == endRest && p.rest == "" }

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
var errNoValue = identity.Invalidf("rules: a wildcard of the path is empty")

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
		if !h.name.isBinary() {
			h.value, _, _ = plainValue(string(h.name), text)
		}
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
		if text, ok := d.Text(file.Pattern, wantPattern); ok {
			c.pattern, _ = d.parsePattern(file.Pattern, "pattern", text)
		}
		if c.methods != nil && !slices.ContainsFunc(c.methods, c.mayHave) {
			d.Fail(n, "no request is of the pattern's method %s and of one in methods: name methods once", c.method)
		}
	}
	for _, h := range c.headers {
		if c.rpc && slices.Contains(takenOutOfCalls, string(h.name)) {
			d.Fail(n, "grpc-go takes the header %s out of a call: no call matches", h.name)
		}
	}
	return c
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

const (
	wantPattern = "a text, a pattern like POST /login, /users/{id} or api.example.com/"
	wantGRPC    = "a text, a method like /shop.Orders/Create or /shop.Orders/*, or * for all"
)

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

// accepts reports whether a request meets the parts of the condition besides the pattern's path and host. The
// request is exact if it does so in the spelling of the file: a server may read another spelling as another
// request. It returns an error if that depends on the client's address, and the address is unknown.
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
	if c.rpc && len(c.segments) == 0 && httptarget.Exempt(r.Method) {
		return false, false, nil // limited only by a rule that names the service
	}
	if len(c.ranges) > 0 {
		client, err := r.Client()
		return err == nil && identity.Contains(c.ranges, client), exact && err == nil, err
	}
	return true, exact, nil
}

// clientRanges are ranges of clients' addresses.
type clientRanges []netip.Prefix

// UnmarshalNode decodes ranges, and reports those that have no clients.
func (r *clientRanges) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	for _, network := range rulefile.ListOf[rulefile.Range](d, n) {
		if identity.IsTranslation(network.Prefix) {
			d.Fail(n, "%v has no clients: they are known by the IPv4 addresses that it stands for", network)
		}
		*r = append(*r, network.Prefix)
	}
}

// takenOutOfCalls are headers that grpc-go does not leave in the metadata of a call.
var takenOutOfCalls = []string{"Grpc-Encoding", "Grpc-Message", "Grpc-Status", "Grpc-Timeout"}
