// Package rulefile is the common part of the files of packages rules and rls. It decodes strictly
// and with positions, parses the notation of policies, and reads and watches files. It depends on
// no YAML library: rules/internal/yamlfile adapts one.
package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Node is a value in a document.
type Node struct {
	Tag     string // Mapping, List, Text, Int, Float, Bool, Null or another tag of YAML
	Value   string // a scalar as it is written
	Plain   bool   // a scalar without quotes
	Line    int
	Column  int
	Content []*Node // the items of a list; the names and values of a mapping in turn
}

// The tags of JSON's types.
const (
	Mapping = "!!map"
	List    = "!!seq"
	Text    = "!!str"
	Int     = "!!int"
	Float   = "!!float"
	Bool    = "!!bool"
	Null    = "!!null"
)

// IsScalar reports whether a value is neither a mapping nor a list.
func (n *Node) IsScalar() bool { return n.Tag != Mapping && n.Tag != List }

// String describes a value for errors.
func (n *Node) String() string {
	switch n.Tag {
	case Mapping:
		return "a mapping"
	case List:
		return "a list"
	case Text:
		return fmt.Sprintf("the text %q", Clip(n.Value))
	case Int, Float:
		return "the number " + Clip(n.Value)
	case Null:
		return "nothing"
	case Bool:
		return Clip(n.Value)
	}
	return fmt.Sprintf("%q (%s)", Clip(n.Value), n.Tag)
}

// fieldOf returns the path of a value in a document, for instance rules[3].limits[0].rate.
func fieldOf(in, wanted *Node) string {
	path, _ := pathTo(in, wanted)
	return strings.TrimPrefix(path, ".")
}

func pathTo(in, wanted *Node) (string, bool) {
	if in == wanted {
		return "", true
	}
	for i, child := range in.Content {
		if path, ok := pathTo(child, wanted); ok {
			segment := "[" + strconv.Itoa(i) + "]"
			if in.Tag == Mapping {
				segment = segmentOf(in.Content[i&^1].Value)
			}
			return segment + path, true
		}
	}
	return "", false
}

func segmentOf(name string) string {
	if strings.ContainsAny(name, ". []") || name == "" || !IsPrintable(name) {
		return fmt.Sprintf("[%q]", Clip(name))
	}
	return "." + Clip(name)
}

// IsPrintable reports whether a text is printable ASCII.
func IsPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Clip shortens a text for an error.
func Clip(text string) string { return Cut(64, text) }

// Cut shortens a text to at most n bytes.
func Cut(most int, text string) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}

// MaxProblems is the largest number of problems that are reported of one file.
const MaxProblems = 20

// Problem is one problem of a file, with its place.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // from 1; 0 for the file as a whole
	Column int    `json:"column,omitempty"` // in characters, from 1; 0 if unknown
	Field  string `json:"field,omitempty"`  // for instance rules[3].limits[0].rate; "" for the whole document
	Reason string `json:"reason"`           // the problem, with the value and what to write instead
	Err    error  `json:"-"`                // the cause, for instance of the file system; else nil
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Join joins problems into one error, nil if there are none.
func Join(problems ...*Problem) error {
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = p
	}
	return errors.Join(all...)
}

// ProblemsOf returns the problems of an error of Join.
func ProblemsOf(err error) (all []*Problem) {
	switch err := err.(type) { //nolint:errorlint // a cause of a problem may be several errors too
	case *Problem:
		return []*Problem{err}
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			all = append(all, ProblemsOf(one)...)
		}
	}
	return all
}

// Error returns the problem in the form of compiler errors: rules.yaml:12:7:
// rules[3].limits[0].rate: and the reason.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(cmp.Or(p.File, "rules"))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	if p.Field != "" {
		b.WriteString(": " + p.Field)
	}
	return b.String() + ": " + p.Reason
}

// Sort sorts problems in the order of the file.
func Sort(problems []*Problem) {
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// SyntaxProblem returns the problem of a text that is not YAML, from the report of a library: the
// message, and the construct that begins in the line from.
func SyntaxProblem(data []byte, line, column int, message, context string, from int) *Problem {
	p := &Problem{Line: line, Column: column, Reason: "no YAML: " + Cut(200, message)}
	if line == 0 { // libraries do not report the place of an invalid character
		p.Line = lineOf(data, isControl)
	}
	if context != "" {
		p.Reason += " (" + context
		if from > 0 && from != line {
			p.Reason += fmt.Sprintf(" that begins in line %d", from)
		}
		p.Reason += ")"
	}
	return p
}

// lineOf returns the line of the first wrong character, 0 for none.
func lineOf(data []byte, wrong func(r rune, size int) bool) int {
	for line := 1; len(data) > 0; {
		r, size := utf8.DecodeRune(data)
		if wrong(r, size) {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return 0
}

func isNoUTF8(r rune, size int) bool { return r == utf8.RuneError && size == 1 }

// isControl reports whether YAML forbids a character.
func isControl(r rune, _ int) bool {
	return r != '\u0085' && unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff'
}
