package ruleset

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// Request is a request of HTTP, or a call of gRPC, as rules read it.
type Request struct {
	Method  string                     // of HTTP in upper case; of gRPC the full method
	Hosts   []string                   // without port and final dot, in lower case; several if they differ
	Headers func() http.Header         // by the canonical name
	Trailer http.Header                // the fields that follow the body
	Query   string                     // of the URL, as it was sent
	Client  func() (netip.Addr, error) // the client's address
	Address httplimit.Address          // how many bits of that are a key
	Length  int64                      // of the body, -1 if unknown

	path        *httptarget.Path // its interpretations; nil for a call of gRPC, whose path is its method
	unreadable  error            // why the rules cannot read the request; nil if they can
	otherMethod bool             // the method was sent in another spelling
	otherHost   bool             // a host was
	fields      *httptarget.Fields
	values      map[string]*values
}

// methodKey returns the method as a key, and whether it was sent in this spelling.
func (r *Request) methodKey() (key string, exact bool) {
	if r.path == nil {
		return r.Method, true
	}
	return httptarget.MethodKey(r.Method), !r.otherMethod && r.Method != http.MethodHead
}

// values are the values of one part of a request. They are read once for all rules.
type values struct {
	sent  []string
	texts map[string]bool // plain; nil for one value
	one   string          // the only value, plain
	exact bool            // it was sent so
	clear bool            // all servers read the values so
}

// valuesOf returns the values of a header by its canonical name, of cookie:NAME, or of query:NAME.
func (r *Request) valuesOf(name string) *values {
	if v := r.values[name]; v != nil {
		return v
	}
	v := new(values)
	switch kind, of, _ := strings.Cut(name, ":"); partKind(kind) {
	case partQuery:
		v.sent, v.clear = parametersOf(r.Query, of)
	case partCookie:
		lines, clear := r.field("Cookie")
		v.sent, v.clear = cookiesOf(lines, of)
		v.clear = v.clear && clear
	default:
		v.sent, v.clear = r.field(name)
	}
	if len(v.sent) > 1 {
		v.texts = make(map[string]bool)
	}
	for _, text := range v.sent {
		exact, clear := true, true
		if r.path != nil || !headerName(name).isBinary() {
			text, exact, clear = plainValue(name, text)
		}
		if v.clear = v.clear && clear; v.texts != nil {
			v.texts[text] = true
		} else {
			v.one, v.exact = text, exact && v.clear
		}
	}
	if r.values == nil {
		r.values = make(map[string]*values)
	}
	r.values[name] = v
	return v
}

// field returns the values of a header, and whether all servers read them so.
func (r *Request) field(name string) (sent []string, clear bool) {
	if r.fields == nil {
		r.fields = httptarget.ReadFields(r.Headers(), r.Trailer)
	}
	return r.fields.Get(name)
}

// plainValue returns a value of a header, a cookie or a parameter without what has no meaning in it. exact reports
// whether it was sent so, and clear whether all servers read it so.
func plainValue(name, value string) (text string, exact, clear bool) {
	switch kind, _, _ := strings.Cut(name, ":"); partKind(kind) {
	case partQuery:
		return value, true, true
	case partCookie:
		return plainCookie(value)
	}
	text, exact, err := httptarget.FieldValue(name, value)
	return text, exact, err == nil
}

// parametersOf returns the values of a parameter of a query, and whether all servers read them so. Some
// servers separate parameters by semicolons too.
func parametersOf(query, name string) (sent []string, clear bool) {
	clear = true
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			continue
		}
		if key != name {
			clear = clear && !isMangled(key, name)
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			clear = false
		}
		sent = append(sent, value)
	}
	return sent, clear
}

// isMangled reports whether PHP and others read another name as that of a cookie or a parameter.
func isMangled(other, name string) bool {
	other, name = mangle.Replace(strings.TrimLeft(other, " ")), mangle.Replace(name)
	rest, ok := strings.CutPrefix(other, name)
	return ok && (rest == "" || rest[0] == '[' || rest[0] == 0) || strings.ReplaceAll(other, "[", "_") == name
}

var mangle = strings.NewReplacer(" ", "_", ".", "_")

// cookiesOf returns the values of a cookie, and whether all servers read them so. Others separate cookies by
// white space (Python) or commas (old ones of Java and Ruby). They ignore the case of names, or decode names. They
// read the lines of RFC 2109, whose attributes begin with a dollar sign.
func cookiesOf(lines []string, name string) (sent []string, clear bool) {
	clear = true
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(pair, "=")
			if key = strings.Trim(key, " \t"); key == name {
				sent = append(sent, value)
				continue
			}
			decoded, err := url.QueryUnescape(key)
			if strings.HasPrefix(key, "$") || strings.EqualFold(key, name) || err == nil && isMangled(decoded, name) ||
				hidesCookie(pair, name) {
				clear = false
			}
		}
	}
	return sent, clear
}

// hidesCookie reports whether the text of another cookie has the name and an equals sign behind a separator.
func hidesCookie(pair, name string) bool {
	before := ""
	for part := range strings.FieldsFuncSeq(pair, func(r rune) bool { return strings.ContainsRune(", \t\"", r) }) {
		if key, _, found := strings.Cut(part, "="); found && (key == name || key == "" && before == name) {
			return true
		}
		before = part
	}
	return false
}

// plainCookie returns the value of a cookie without spaces and quotes around it, and decoded: some servers do
// that, and some of them read a plus sign as a space. What is no value of RFC 6265 has several readings, as an
// escape in quotes, and so has the JSON of Express.
func plainCookie(value string) (text string, exact, clear bool) {
	text = strings.Trim(value, " \t")
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	decoded, err := url.PathUnescape(text)
	clear = err == nil && !strings.ContainsAny(text, "\", \t\\") && !strings.HasPrefix(decoded, "j:")
	return strings.ReplaceAll(decoded, "+", " "), decoded == value, clear
}

// has reports whether a value is among them, "*" for any, and whether every server reads it so: one may
// read the first of several values, and another one the last.
func (v *values) has(value string) (ok, exact bool) {
	switch {
	case len(v.sent) == 0:
		return false, false
	case value == "*":
		return true, v.clear && (v.one != "" || len(v.sent) > 1 && !v.texts[""])
	case len(v.sent) > 1:
		return v.texts[value], false
	}
	return v.one == value, v.exact
}

// key returns the value as a part of a key, and whether it was sent so. what names the source.
func (v *values) key(what string) (text string, exact bool, err error) {
	switch {
	case len(v.sent) != 1 || v.one == "":
		return "", false, identity.Lackingf(what, "rules: %d values of the %s, want one that is not empty", len(v.sent), what)
	case !v.clear:
		return "", false, identity.Lackingf(what, "rules: servers read the %s in several ways, want one value", what)
	case len(v.one) > httptarget.MaxLength:
		return "", false, identity.Invalidf("rules: the %s has %d bytes, want at most %d", what, len(v.one),
			httptarget.MaxLength)
	}
	return v.one, v.exact, nil
}
