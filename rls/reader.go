package rls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// ConfigError says what is wrong with a configuration file, and where.
type ConfigError struct {
	File   string // as it was given
	Line   int    // from 1 on; 0 where the file as a whole is meant
	Field  string // the path of the field, as "descriptors[0].rate_limit.unit"; "" where the file as a whole is meant
	Reason string // what is wrong, with the value, and what is wanted
}

// Error is "file:line: field: reason".
func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Reason
}

const (
	mostBytes  = 16 << 20 // of a file
	mostNodes  = 1 << 20  // that a file has, those counted twice that it names twice
	mostErrors = 20       // that are told of a file
	mostDepth  = 64       // of what stands within each other
)

// reader reads one file strictly: a field that is not known, or of another type, is an error.
type reader struct {
	file  string
	errs  []error
	nodes int
	rules int // descriptors so far
}

// fields reads the values of a mapping into a T, each by its key.
type fields[T any] map[string]func(r *reader, value *yaml.Node, path string, into *T)

// open gives what a file holds, or nil where it is empty.
func (r *reader) open(text []byte) *yaml.Node {
	if len(text) > mostBytes {
		r.whole(fmt.Sprintf("has more than %d bytes, which is the most", mostBytes)) // it has grown since it was looked at
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.unparsed(err)
		}
		return nil
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		if err != nil {
			r.unparsed(err)
		} else {
			r.fail(&next, "", "a second document begins, give each domain a file of its own")
		}
		return nil
	}
	if document.Kind == yaml.DocumentNode && len(document.Content) == 1 {
		return document.Content[0]
	}
	return &document
}

// unparsed tells of what is no YAML.
func (r *reader) unparsed(err error) {
	made := &ConfigError{File: r.file, Reason: "is no YAML: " + strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")}
	var load *yaml.LoadError
	if errors.As(err, &load) && load.Mark.Line > 0 {
		made.Line, made.Reason = load.Mark.Line, "is no YAML: "+load.Message
		if load.ContextMsg != "" {
			made.Reason += " (" + load.ContextMsg + ")"
		}
	}
	r.errs = append(r.errs, made)
}

func (r *reader) whole(reason string) {
	r.errs = append(r.errs, &ConfigError{File: r.file, Reason: reason})
}

func (r *reader) fail(n *yaml.Node, path, format string, values ...any) {
	if len(r.errs) < mostErrors {
		r.errs = append(r.errs, &ConfigError{File: r.file, Line: n.Line, Field: path, Reason: fmt.Sprintf(format, values...)})
	}
}

// resolve gives what an alias stands for. It counts what has been looked at, so that a small file cannot be large.
func (r *reader) resolve(n *yaml.Node, path string) *yaml.Node {
	if r.nodes++; r.nodes > mostNodes {
		if r.nodes == mostNodes+1 {
			r.fail(n, path, "the file has more than %d values, aliases counted each time", mostNodes)
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
	}
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// pair is a field of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs is the fields of a mapping, those that it merges from others behind its own.
func (r *reader) pairs(n *yaml.Node, path string, depth int) (all []pair) {
	seen := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := r.resolve(n.Content[i], path), n.Content[i+1]
		switch tag := key.ShortTag(); {
		case key.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!merge":
			r.fail(key, path, "a field is named %s, want text", told(key))
		case key.Value == "<<" && key.Style == 0:
			merged = append(merged, value)
		case seen[key.Value]:
			r.fail(key, join(path, key.Value), "stands here a second time")
		default:
			seen[key.Value] = true
			all = append(all, pair{key, value})
		}
	}
	for _, from := range merged {
		if from = r.resolve(from, path); from.Kind == yaml.SequenceNode {
			merged = append(merged[:0:0], from.Content...)
		} else {
			merged = []*yaml.Node{from}
		}
		for _, m := range merged {
			if m = r.resolve(m, path); m.Kind != yaml.MappingNode || depth > mostDepth {
				r.fail(m, join(path, "<<"), "is %s, want a mapping", told(m))
				continue
			}
			for _, p := range r.pairs(m, path, depth+1) {
				if !seen[p.key.Value] {
					seen[p.key.Value] = true
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// mapping reads the fields of a mapping. Null has none.
func mapping[T any](r *reader, n *yaml.Node, path string, known fields[T], into *T) {
	if n = r.resolve(n, path); isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "is %s, want a mapping", told(n))
		return
	}
	for _, p := range r.pairs(n, path, 0) {
		name := p.key.Value
		if read := known[name]; read != nil {
			read(r, p.value, join(path, name), into)
			continue
		}
		if where := belongs[name]; where != "" {
			r.fail(p.key, join(path, name), "has no meaning here, it belongs to %s", where)
		} else {
			r.fail(p.key, join(path, name), "is not known, want one of %s", strings.Join(sorted(known), ", "))
		}
	}
}

func sorted[T any](known fields[T]) []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list reads the elements of a list. Null has none.
func (r *reader) list(n *yaml.Node, path string, read func(value *yaml.Node, path string)) {
	if n = r.resolve(n, path); isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, path, "is %s, want a list", told(n))
		return
	}
	for i, value := range n.Content {
		read(value, path+"["+strconv.Itoa(i)+"]")
	}
}

// text reads a text: any scalar as it is written, "" for null.
func (r *reader) text(n *yaml.Node, path string) string {
	if n = r.resolve(n, path); isNull(n) {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		r.fail(n, path, "is %s, want text", told(n))
		return ""
	}
	return n.Value
}

// oneOf reads a text that is one of some.
func (r *reader) oneOf(n *yaml.Node, path string, wanted ...string) string {
	text := r.text(n, path)
	if !slices.Contains(wanted, text) {
		r.fail(n, path, "is %q, want one of %s", text, strings.Join(wanted, ", "))
		return ""
	}
	return text
}

// flag reads yes or no, in the ways of YAML 1.1 too.
func (r *reader) flag(n *yaml.Node, path string) bool {
	n = r.resolve(n, path)
	if n.Kind == yaml.ScalarNode && (n.Style == 0 || n.ShortTag() == "!!bool") {
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n", "", "~", "null":
			return false
		}
	}
	r.fail(n, path, "is %s, want true or false", told(n))
	return false
}

// number reads a whole number, 0 to most.
func (r *reader) number(n *yaml.Node, path string, most uint64) uint64 {
	n = r.resolve(n, path)
	if n.Kind == yaml.ScalarNode && n.Style == 0 {
		if value, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "+"), 0, 64); err == nil && value <= most {
			return value
		}
	}
	r.fail(n, path, "is %s, want a whole number, 0 to %d", told(n), most)
	return 0
}

// duration reads a length of time, as "30s".
func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	d, err := time.ParseDuration(r.text(n, path))
	if err != nil || d < time.Millisecond || d%time.Millisecond != 0 {
		r.fail(n, path, "is %s, want a length of time in whole milliseconds, as 30s or 1m30s", told(r.resolve(n, path)))
		return 0
	}
	return d
}

// told is a value in an error's text.
func told(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if isNull(n) {
		return "empty"
	}
	return strconv.Quote(short(n.Value))
}

func short(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:57], "") + "..."
}

func join(path, field string) string {
	if path == "" {
		return short(field)
	}
	return path + "." + short(field)
}
