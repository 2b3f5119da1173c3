package ruleset

import (
	"net/url"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// source is what some values of a request are of: a header, or with a kind a cookie or a parameter of
// the query.
type source struct{ kind, name string }

// values are the values of one source of a request. They are read once for all rules.
type values struct {
	sent  []string
	texts map[string]bool // trimmed; nil for one value
	one   string          // the only value, trimmed
	exact bool            // it was sent so
}

// valuesOf returns the values of a source.
func (r *Request) valuesOf(of source) *values {
	if v := r.values[of]; v != nil {
		return v
	}
	v := &values{sent: r.sent(of)}
	if len(v.sent) == 1 {
		v.one = r.trimmed(of, v.sent[0])
		v.exact = v.one == v.sent[0]
	} else if len(v.sent) > 1 {
		v.texts = make(map[string]bool)
		for _, text := range v.sent {
			v.texts[r.trimmed(of, text)] = true
		}
	}
	if r.values == nil {
		r.values = make(map[source]*values)
	}
	r.values[of] = v
	return v
}

// sent returns the values of a source as they were sent. Some servers separate parameters of the query
// by semicolons too.
func (r *Request) sent(of source) (all []string) {
	if of.kind == "" {
		return r.Headers()[of.name]
	}
	lines, separators, decode := r.Headers()["Cookie"], ";", func(text string) string { return strings.Trim(text, " \t") }
	if of.kind == "query" {
		lines, separators = []string{r.Query}, "&;"
		decode = func(text string) string {
			if plain, err := url.QueryUnescape(text); err == nil {
				return plain
			}
			return text
		}
	}
	for _, line := range lines {
		for _, pair := range strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
			if name, value, _ := strings.Cut(pair, "="); decode(name) == of.name {
				all = append(all, decode(value))
			}
		}
	}
	return all
}

// trimmed returns a value without the white space around it, which is no part of a header's value, and
// without the quotes of a cookie. Binary metadata of gRPC has no white space.
func (r *Request) trimmed(of source, value string) string {
	switch {
	case of.kind == "query" || r.Path == nil && headerName(of.name).isBinary():
		return value
	case of.kind == "cookie" && len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"':
		return value[1 : len(value)-1]
	}
	return strings.Trim(value, " \t")
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
