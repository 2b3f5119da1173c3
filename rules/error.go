package rules

import (
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Error is one problem of a file of rules, with its place. An error of [Parse] and [Load] holds up
// to 20 problems, each of which errors.As finds.
type Error struct {
	File   string // as passed to Parse or Load; "" if Parse got no name
	Line   int    // from 1; 0 for the file as a whole
	Column int    // in characters, from 1; 0 if unknown
	Field  string // for instance rules[3].limits[0].rate; "" for the whole document
	Reason string // the problem, with the value and what to write instead
	Err    error  // the cause, for instance of the file system; else nil
}

// Error returns the problem in the form of compiler errors: rules.yaml:12:7:
// rules[3].limits[0].rate: and the reason.
func (e *Error) Error() string {
	p := rulefile.Problem(*e)
	if p.File == "" {
		p.File = "rules"
	}
	return p.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// joinErrors joins problems into one error, nil if there are none.
func joinErrors(problems []*rulefile.Problem) error {
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = (*Error)(p)
	}
	return errors.Join(all...)
}
