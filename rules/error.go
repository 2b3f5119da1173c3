package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is one thing that is wrong with a file of rules: where, and what. An error of [Parse] and [Load] holds all that were
// found, the first 20 of them, each for errors.As to find.
type Error struct {
	File   string // as it was opened; "" where Parse was given no name
	Line   int    // from 1 on; 0 where it is about the file as a whole
	Column int    // in characters, from 1 on; 0 where it is not known
	Field  string // as rules[3].limits[0].rate; "" for the whole document
	Reason string // what is wrong, with the value, and what to write instead
	Err    error  // what it came from: of the file system, for instance; else nil
}

// Error tells it as compilers do: rules.yaml:12:7: rules[3].limits[0].rate: and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.File == "" {
		b.WriteString("rules")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Unwrap is what it came from.
func (e *Error) Unwrap() error { return e.Err }

// mostProblems is how many problems of one file are told.
const mostProblems = 20

// joined makes one error of problems, in the order of the file, nil of none.
func joined(problems []*Error) error {
	slices.SortStableFunc(problems, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = p
	}
	return errors.Join(all...)
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
