// Package blocks reads what configuration files are mostly made of, some ten times as fast as the YAML library does: blocks of mappings
// and lists, values in one line, and, comments apart, no character but printable ASCII. It is sure or it gives nothing, and the library reads what it gave
// nothing for: both give the same nodes, and errors are the library's alone.
package blocks

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Reader reads texts, one after the other.
type Reader struct {
	text  string
	at    int // the next byte
	line  int // its line, from 1 on
	begin int // where that line begins

	nodes []*[nodesAtOnce]yaml.Node // for each text anew
	used  int
}

// What a text has at most, to be read here.
const (
	deepest    = 32
	longestKey = 128
)

// nodesAtOnce is how many nodes are made in one piece: those of some ten rules.
const nodesAtOnce = 256

// Read reads a text that begins in some line of a file, and gives nil where it is not sure. The nodes are good until the next call, and
// hold pieces of the text.
func (r *Reader) Read(text string, line int) *yaml.Node {
	r.text, r.at, r.line, r.begin, r.used = text, 0, line, 0, 0
	r.seek()
	root := r.block(0)
	if root == nil || r.at < len(text) {
		return nil
	}
	return root
}

// node is one for what stands here.
func (r *Reader) node(kind yaml.Kind, tag string) *yaml.Node {
	if r.used == len(r.nodes)*nodesAtOnce {
		r.nodes = append(r.nodes, new([nodesAtOnce]yaml.Node))
	}
	n := &r.nodes[r.used/nodesAtOnce][r.used%nodesAtOnce]
	r.used++
	*n = yaml.Node{Kind: kind, Tag: tag, Line: r.line, Column: r.column() + 1, Content: n.Content[:0]}
	return n
}

// column is that of the next byte, from 0 on, and -1 at the end.
func (r *Reader) column() int {
	if r.at == len(r.text) {
		return -1
	}
	return r.at - r.begin
}

// here is the next byte, and a line feed at the end.
func (r *Reader) here() byte {
	if r.at == len(r.text) {
		return '\n'
	}
	return r.text[r.at]
}

func (r *Reader) spaces() {
	for r.here() == ' ' {
		r.at++
	}
}

// seek goes on to what is no space, no comment and no end of a line.
func (r *Reader) seek() {
	for r.at < len(r.text) && r.endOfLine() {
	}
}

// endOfLine goes over spaces, and over a comment and the end of the line if nothing else follows, which it tells.
func (r *Reader) endOfLine() bool {
	from := r.at
	r.spaces()
	if r.here() == '#' && (r.at > from || r.at == r.begin) {
		r.comment()
	}
	if r.here() != '\n' {
		return false
	}
	if r.at < len(r.text) {
		r.at++
		r.line++
		r.begin = r.at
	}
	return true
}

// comment goes to where a comment ends, which may be in any language.
func (r *Reader) comment() {
	for r.at < len(r.text) {
		c, size := utf8.DecodeRuneInString(r.text[r.at:])
		if !unicode.IsPrint(c) || c == utf8.RuneError && size == 1 {
			return
		}
		r.at += size
	}
}

// isPlain says whether a byte is printable ASCII.
func isPlain(c byte) bool { return c >= ' ' && c <= '~' }

// block reads the mapping or the list that begins here, and all of its lines.
func (r *Reader) block(depth int) *yaml.Node {
	switch {
	case depth > deepest:
		return nil
	case r.isDash():
		return r.list(depth)
	case r.keyEnd() > 0:
		return r.mapping(depth)
	}
	return nil
}

// isDash says whether an item of a list begins here.
func (r *Reader) isDash() bool {
	return r.here() == '-' && (r.at+1 == len(r.text) || r.text[r.at+1] == ' ' || r.text[r.at+1] == '\n')
}

// list reads the items of a list whose dashes stand in this column. What stands deeper behind an item, as the second line of a text
// does, is of no list or mapping around it either, and so left over at the end.
func (r *Reader) list(depth int) *yaml.Node {
	n, column := r.node(yaml.SequenceNode, "!!seq"), r.column()
	for r.column() == column && r.isDash() {
		r.at++
		item := (*yaml.Node)(nil)
		switch {
		case r.endOfLine():
			if r.seek(); r.column() > column {
				item = r.block(depth + 1)
			}
		case r.keyEnd() > 0:
			item = r.mapping(depth + 1)
		default:
			item = r.value(depth + 1)
		}
		if item == nil {
			return nil
		}
		n.Content = append(n.Content, item)
	}
	return n
}

// mapping reads the fields of a mapping that begin in this column.
func (r *Reader) mapping(depth int) *yaml.Node {
	n, column := r.node(yaml.MappingNode, "!!map"), r.column()
	for r.column() == column {
		key := r.key()
		if key == nil {
			return nil
		}
		value := (*yaml.Node)(nil)
		if !r.endOfLine() {
			value = r.value(depth + 1)
		} else if r.seek(); r.column() > column || r.column() == column && r.isDash() {
			value = r.block(depth + 1)
		}
		if value == nil {
			return nil
		}
		n.Content = append(n.Content, key, value)
	}
	return n
}

// keyEnd is where the name of a field ends that begins here, with its colon, or 0.
func (r *Reader) keyEnd() int {
	end := r.at
	for end < len(r.text) && (isWordByte(r.text[end]) || end > r.at && strings.IndexByte("-./", r.text[end]) >= 0) {
		end++
	}
	if end == r.at || end-r.at > longestKey || end+1 >= len(r.text) || r.text[end] != ':' || r.text[end+1] != ' ' && r.text[end+1] != '\n' {
		return 0
	}
	return end
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// key reads the name of a field, and the colon behind it.
func (r *Reader) key() *yaml.Node {
	end := r.keyEnd()
	if end == 0 {
		return nil
	}
	n := r.plain(end)
	r.at++
	return n
}

// value reads a value that ends with its line, and goes on to what follows.
func (r *Reader) value(depth int) *yaml.Node {
	n := r.inLine(depth, func(c, next byte) bool { return c != ':' || isPlain(next) && next != ' ' })
	if n == nil || !r.endOfLine() {
		return nil
	}
	r.seek()
	return n
}

// inLine reads a value in one line, whose plain texts have such bytes.
func (r *Reader) inLine(depth int, has func(c, next byte) bool) *yaml.Node {
	switch c := r.here(); {
	case depth > deepest:
		return nil
	case c == '[' || c == '{':
		return r.flow(depth)
	case c == '"' || c == '\'':
		return r.quoted(c)
	case !isWordByte(c) && c != '/':
		return nil
	}
	end := r.at
	for end < len(r.text) && isPlain(r.text[end]) && (r.text[end] != '#' || r.text[end-1] != ' ') {
		next := byte('\n')
		if end+1 < len(r.text) {
			next = r.text[end+1]
		}
		if !has(r.text[end], next) {
			break
		}
		end++
	}
	for r.text[end-1] == ' ' {
		end--
	}
	return r.plain(end)
}

// plain is a text without quotes, up to a place.
func (r *Reader) plain(end int) *yaml.Node {
	text := r.text[r.at:end]
	tag := plainTag(text)
	if tag == "" {
		return nil
	}
	n := r.node(yaml.ScalarNode, tag)
	n.Value = text
	r.at = end
	return n
}

// quoted reads a text in quotes, without escapes.
func (r *Reader) quoted(quote byte) *yaml.Node {
	n := r.node(yaml.ScalarNode, "!!str")
	if n.Style = yaml.SingleQuotedStyle; quote == '"' {
		n.Style = yaml.DoubleQuotedStyle
	}
	r.at++
	from := r.at
	for isPlain(r.here()) && r.here() != quote && r.here() != '\\' {
		r.at++
	}
	n.Value = r.text[from:r.at]
	if r.here() != quote {
		return nil
	}
	r.at++
	return n
}

// flow reads what stands in brackets, values or fields, in one line.
func (r *Reader) flow(depth int) *yaml.Node {
	n, end := r.node(yaml.SequenceNode, "!!seq"), byte(']')
	if r.here() == '{' {
		n.Kind, n.Tag, end = yaml.MappingNode, "!!map", '}'
	}
	n.Style = yaml.FlowStyle
	for r.here() != end {
		r.at++ // the bracket, or a comma
		r.spaces()
		if n.Kind == yaml.MappingNode {
			key := r.key()
			if key == nil {
				return nil
			}
			n.Content = append(n.Content, key)
			r.spaces()
		}
		value := r.inLine(depth+1, func(c, next byte) bool {
			return isWordByte(c) || strings.IndexByte(" -./*+=", c) >= 0 || c == ':' && isWordByte(next)
		})
		if value == nil {
			return nil
		}
		n.Content = append(n.Content, value)
		if r.spaces(); r.here() != ',' && r.here() != end {
			return nil
		}
	}
	r.at++
	return n
}

// plainTag is what a text without quotes is that begins with a letter, a digit, an underscore or a slash, or nothing where it takes
// more to say.
func plainTag(text string) string {
	switch text {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return "!!bool"
	case "null", "Null", "NULL":
		return "!!null"
	}
	if text[0] < '0' || text[0] > '9' {
		return "!!str"
	}
	dots := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			dots++
		case c >= '0' && c <= '9':
		case strings.IndexByte("abcdefABCDEFxXoO_+-:TtZz ", c) >= 0: // what numbers and times may have
			dots = -len(text)
		default:
			return "!!str"
		}
	}
	switch {
	case dots > 1:
		return "!!str"
	case dots == 1 && len(text) <= 300: // beyond, it may be too large for a float
		return "!!float"
	case dots == 0 && len(text) <= 18 && (text[0] != '0' || len(text) == 1):
		return "!!int"
	}
	return ""
}
