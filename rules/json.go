package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// jsonReader reads JSON as the nodes that YAML gives, so that both are decoded alike and errors have their line.
type jsonReader struct {
	text     string
	at       int
	line     int
	columnAt int // how far columns of this line are counted
	columns  int
	depth    int
	nodes    []yaml.Node // some, made at once
}

// jsonProblem is what is wrong, where the reader is.
type jsonProblem string

// parseJSON reads a document, and says where it ends to be one.
func parseJSON(data []byte) (root *yaml.Node, problem *Error) {
	r := &jsonReader{text: string(data), line: 1}
	defer func() {
		if p, ok := recover().(jsonProblem); ok {
			root, problem = nil, &Error{Line: r.line, Column: r.column(), Reason: string(p)}
		}
	}()
	r.space()
	root = r.value()
	if r.space(); r.at < len(r.text) {
		r.fail("something follows the document: %q", r.shown())
	}
	return root, nil
}

// column counts on from where it counted last: a file may be one line.
func (r *jsonReader) column() int {
	if r.at > r.columnAt {
		r.columns += utf8.RuneCountInString(r.text[r.columnAt:r.at])
		r.columnAt = r.at
	}
	return r.columns + 1
}

func (r *jsonReader) fail(format string, values ...any) {
	panic(jsonProblem(fmt.Sprintf(format, values...)))
}

// shown is what stands here, as far as an error shows it.
func (r *jsonReader) shown() string {
	rest := r.text[r.at:]
	if end := strings.IndexAny(rest, " \t\r\n"); end > 0 {
		rest = rest[:end]
	}
	return clipped(rest)
}

func (r *jsonReader) space() {
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\n':
			r.line++
			r.columnAt, r.columns = r.at+1, 0
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

func (r *jsonReader) node(kind yaml.Kind, tag string) *yaml.Node {
	if len(r.nodes) == 0 {
		r.nodes = make([]yaml.Node, 64)
	}
	n := &r.nodes[0]
	r.nodes = r.nodes[1:]
	n.Kind, n.Tag, n.Line, n.Column = kind, tag, r.line, r.column()
	return n
}

// next is the byte here, or a failure at the end of the file.
func (r *jsonReader) next() byte {
	if r.at >= len(r.text) {
		r.fail("the file ends within the document")
	}
	return r.text[r.at]
}

func (r *jsonReader) value() *yaml.Node {
	switch c := r.next(); {
	case c == '{':
		return r.list(yaml.MappingNode, "!!map", '}')
	case c == '[':
		return r.list(yaml.SequenceNode, "!!seq", ']')
	case c == '"':
		return r.string()
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for text, tag := range map[string]string{"true": "!!bool", "false": "!!bool", "null": "!!null"} {
		if strings.HasPrefix(r.text[r.at:], text) {
			n := r.node(yaml.ScalarNode, tag)
			n.Value = text
			r.at += len(text)
			return n
		}
	}
	r.fail("%q is no JSON value", r.shown())
	return nil
}

// list reads what stands in brackets, pairs or single values.
func (r *jsonReader) list(kind yaml.Kind, tag string, end byte) *yaml.Node {
	n := r.node(kind, tag)
	if r.depth++; r.depth > 100 {
		r.fail("brackets stand within each other more than 100 deep")
	}
	r.at++
	r.space()
	for first := true; r.next() != end; first = false {
		if !first {
			if r.next() != ',' {
				r.fail("%q, want a comma or %q", r.shown(), string(end))
			}
			r.at++
			r.space()
		}
		if kind == yaml.MappingNode {
			if r.next() != '"' {
				r.fail("%q, want the name of a field in quotes", r.shown())
			}
			n.Content = append(n.Content, r.string())
			if r.space(); r.next() != ':' {
				r.fail("%q, want a colon behind %q", r.shown(), clipped(n.Content[len(n.Content)-1].Value))
			}
			r.at++
			r.space()
		}
		n.Content = append(n.Content, r.value())
		r.space()
	}
	r.at++
	r.depth--
	return n
}

func (r *jsonReader) string() *yaml.Node {
	n := r.node(yaml.ScalarNode, "!!str")
	n.Style = yaml.DoubleQuotedStyle
	plain := true
	end := r.at + 1
	for ; ; end++ {
		if end >= len(r.text) || r.text[end] < ' ' {
			r.fail("a text has no end in its line")
		}
		if r.text[end] == '"' {
			break
		}
		if r.text[end] == '\\' {
			plain = false
			end++
		}
	}
	quoted := r.text[r.at : end+1]
	if n.Value = quoted[1 : len(quoted)-1]; !plain {
		if err := json.Unmarshal([]byte(quoted), &n.Value); err != nil {
			r.fail("%s is no JSON text", clipped(quoted))
		}
	}
	if !utf8.ValidString(n.Value) {
		r.fail("%q is not UTF-8", clipped(n.Value))
	}
	r.at = end + 1
	return n
}

func (r *jsonReader) number() *yaml.Node {
	n := r.node(yaml.ScalarNode, "!!int")
	begin := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.at]) >= 0 {
		r.at++
	}
	n.Value = r.text[begin:r.at]
	if !json.Valid([]byte(n.Value)) {
		r.at = begin
		r.fail("%q is no JSON number", clipped(n.Value))
	}
	if strings.ContainsAny(n.Value, ".eE") {
		n.Tag = "!!float"
	}
	return n
}

// clipped is a text as errors show it.
func clipped(text string) string { return cutTo(64, text) }

func cutTo(most int, text string) string {
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
