package rulefile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxProblems is the largest number of problems that are reported of one file.
const MaxProblems = 20

// Problem is one problem of a file, with its place.
type Problem struct {
	File   string
	Line   int    // from 1; 0 for the file as a whole
	Column int    // in characters, from 1; 0 if unknown
	Field  string // for instance rules[3].limits[0].rate; "" for the whole document
	Reason string // the problem, with the value and what to write instead
	Err    error  // the cause, for instance of the file system; else nil
}

// Error returns the problem in the form of compiler errors: rules.yaml:12:7:
// rules[3].limits[0].rate: and the reason.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
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
