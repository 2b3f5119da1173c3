package redisx

import (
	"io/fs"
	"path"
	"strings"
)

// Parts are Lua texts by name, which scripts consist of. A line "--@include name" takes another part
// in. Comments are removed, since a server keeps the text of every script.
type Parts map[string]string

// ReadParts returns the .lua files of a directory, by their names without ".lua". It panics if the
// directory is missing: it is embedded.
func ReadParts(files fs.FS, dir string) Parts {
	names, err := fs.Glob(files, path.Join(dir, "*.lua"))
	if err != nil || len(names) == 0 {
		panic("redisx: no Lua files in " + dir)
	}
	parts := make(Parts)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		parts[strings.TrimSuffix(path.Base(name), ".lua")] = Code(string(text))
	}
	return parts
}

// ParseParts returns the parts of a source. What precedes the first part is ignored. A part starts at
// its line
//
//	--@ name  in: names that it reads  out: names that it sets
func ParseParts(source string) Parts {
	parts := make(Parts)
	name := ""
	for line := range strings.Lines(source) {
		if head, ok := strings.CutPrefix(line, "--@ "); ok {
			name, _, _ = strings.Cut(strings.TrimSpace(head), " ")
			parts[name] = ""
		} else if name != "" {
			parts[name] += Code(line)
		}
	}
	return parts
}

const include = "--@include "

// Code returns a text without comments that are lines of their own, and without empty lines. Lines that
// begin with "--@" stay.
func Code(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && (!strings.HasPrefix(trimmed, "--") || strings.HasPrefix(trimmed, "--@")) {
			code.WriteString(line)
		}
	}
	return code.String()
}

// Text returns a part, with the parts that it includes. It panics if one is missing.
func (p Parts) Text(name string) string {
	body, ok := p[name]
	if !ok {
		panic("redisx: no part " + name)
	}
	return p.Expand(body)
}

// Expand returns a text with the parts that it includes.
func (p Parts) Expand(body string) string {
	var text strings.Builder
	for line := range strings.Lines(body) {
		indent, name, ok := strings.Cut(line, include)
		if !ok {
			text.WriteString(line)
			continue
		}
		for line := range strings.Lines(p.Text(strings.TrimSpace(name))) {
			text.WriteString(indent + line)
		}
	}
	return text.String()
}
