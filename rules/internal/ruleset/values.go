package ruleset

import (
	"net/url"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// values are the values of one part of a request. They are read once for all rules.
type values struct {
	sent  []string
	texts map[string]bool // trimmed; nil for one value
	one   string          // the only value, trimmed
	exact bool            // it was sent so
}

// valuesOf returns the values of a header by its canonical name, of cookie:NAME, or of query:NAME.
func (r *Request) valuesOf(name string) *values {
	if v := r.values[name]; v != nil {
		return v
	}
	v := &values{sent: r.sent(name)}
	if len(v.sent) == 1 {
		v.one = r.trimmed(name, v.sent[0])
		v.exact = v.one == v.sent[0]
	} else if len(v.sent) > 1 {
		v.texts = make(map[string]bool)
		for _, text := range v.sent {
			v.texts[r.trimmed(name, text)] = true
		}
	}
	if r.values == nil {
		r.values = make(map[string]*values)
	}
	r.values[name] = v
	return v
}

// sent returns values as they were sent. Some servers separate parameters of the query by semicolons too.
func (r *Request) sent(name string) (all []string) {
	switch kind, of, _ := strings.Cut(name, ":"); kind {
	case "query":
		query, _ := url.ParseQuery(strings.ReplaceAll(r.Query, ";", "&")) // it leaves out what is malformed
		return query[of]
	case "cookie":
		for _, line := range r.Headers()["Cookie"] {
			for pair := range strings.SplitSeq(line, ";") {
				if name, value, _ := strings.Cut(pair, "="); strings.Trim(name, " \t") == of {
					all = append(all, value)
				}
			}
		}
		return all
	}
	return r.Headers()[name]
}

// trimmed returns a value without the white space around it, which is no part of a header's value, and
// without the quotes of a cookie. Binary metadata of gRPC has no white space.
func (r *Request) trimmed(name, value string) string {
	if strings.HasPrefix(name, "query:") || r.Path == nil && headerName(name).isBinary() {
		return value
	}
	value = strings.Trim(value, " \t")
	if strings.HasPrefix(name, "cookie:") && len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// has reports whether a value is among them, "*" for any, and whether every server reads it so: one may
// read the first of several values, and another one the last.
func (v *values) has(value string) (ok, exact bool) {
	switch {
	case len(v.sent) == 0:
		return false, false
	case value == "*":
		return true, v.one != "" || len(v.sent) > 1 && !v.texts[""]
	case len(v.sent) > 1:
		return v.texts[value], false
	}
	return v.one == value, v.exact
}

// key returns the value as a part of a key, and whether it was sent so. what names the source.
func (v *values) key(what string) (text string, exact bool, err error) {
	switch {
	case len(v.sent) != 1 || v.one == "":
		return "", false, guard.Lackingf(what, "rules: %d values of the %s, want one that is not empty", len(v.sent), what)
	case len(v.one) > httptarget.MaxLength:
		return "", false, guard.Invalidf("rules: the %s has %d bytes, want at most %d", what, len(v.one), httptarget.MaxLength)
	}
	return v.one, v.exact, nil
}
