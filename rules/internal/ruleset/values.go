package ruleset

import (
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// values are the values of one header of a request. They are read once for all rules.
type values struct {
	sent  []string
	texts map[string]bool // without white space around them; nil for one value
	one   string          // the only value, without white space around it
	exact bool            // it was sent so
}

// valuesOf returns the values of a header.
func (r *Request) valuesOf(name headerName) *values {
	if v := r.values[name]; v != nil {
		return v
	}
	v := &values{sent: r.Headers()[string(name)]}
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
		r.values = make(map[headerName]*values)
	}
	r.values[name] = v
	return v
}

// trimmed returns a value without the white space around it, which is no part of a header's value.
// Binary metadata of gRPC has no white space.
func (r *Request) trimmed(name headerName, value string) string {
	if r.Path == nil && name.isBinary() {
		return value
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

// key returns the value as a part of a key, and whether it was sent so.
func (v *values) key(name string) (text string, exact bool, err error) {
	switch {
	case len(v.sent) != 1 || v.one == "":
		return "", false, guard.Lackingf("header "+name, "rules: %d values of the header %s, want one that is not empty",
			len(v.sent), name)
	case len(v.one) > httptarget.MaxLength:
		return "", false, guard.Invalidf("rules: the header %s has %d bytes, want at most %d", name, len(v.one),
			httptarget.MaxLength)
	}
	return v.one, v.exact, nil
}
