package redisx

import "strings"

// Parts are the parts of a Lua source, by name. A part starts at its line
//
//	--@ name  in: names that it reads  out: names that it sets
//
// and a line "--@name" in it includes another part. Comments are removed, since a server keeps the
// text of every script.
type Parts map[string]string

// ParseParts returns the parts of a source. What precedes the first part is ignored.
func ParseParts(source string) Parts {
	parts := make(Parts)
	name := ""
	for line := range strings.Lines(source) {
		code := strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(code, "--@ "); ok {
			name, _, _ = strings.Cut(head, " ")
			parts[name] = ""
			continue
		}
		if name != "" && code != "" && (!strings.HasPrefix(code, "--") || strings.HasPrefix(code, "--@")) {
			parts[name] += line
		}
	}
	return parts
}

// Text returns the concatenation of parts, with the parts that they include. It panics if a part is
// missing.
func (p Parts) Text(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		body, ok := p[name]
		if !ok {
			panic("redisx: no part " + name)
		}
		for line := range strings.Lines(body) {
			indent, included, ok := strings.Cut(line, "--@")
			if !ok {
				text.WriteString(line)
				continue
			}
			for line := range strings.Lines(p.Text(strings.TrimSpace(included))) {
				text.WriteString(indent + line)
			}
		}
	}
	return text.String()
}
