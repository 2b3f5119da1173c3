package rules

import (
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
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

// Error returns it in the form of compilers: rules.yaml:12:7: rules[3].limits[0].rate: and the reason.
func (e *Error) Error() string {
	p := rulefile.Problem(*e)
	if p.File == "" {
		p.File = "rules"
	}
	return p.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// joined returns one error of all problems, nil if there is none.
func joined(problems []*rulefile.Problem) error {
	rulefile.Sort(problems)
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = (*Error)(p)
	}
	return errors.Join(all...)
}
