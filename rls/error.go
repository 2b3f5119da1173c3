package rls

import (
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// ConfigError is one thing that is wrong with a configuration file, and where.
type ConfigError struct {
	File   string // as it was given
	Line   int    // from 1 on; 0 where the file as a whole is meant
	Field  string // the path of the field, as "descriptors[0].rate_limit.unit"; "" where the file as a whole is meant
	Reason string // what is wrong, with the value, and what is wanted
}

// Error is "file:line: field: reason".
func (e *ConfigError) Error() string {
	p := rulefile.Problem{File: e.File, Line: e.Line, Field: e.Field, Reason: e.Reason}
	return p.Error()
}

// configErrors converts problems, in the order of their file.
func configErrors(problems []*rulefile.Problem) []error {
	rulefile.Sort(problems)
	var errs []error
	for _, p := range problems {
		errs = append(errs, configError(p))
	}
	return errs
}

func configError(p *rulefile.Problem) error { return &ConfigError{p.File, p.Line, p.Field, p.Reason} }
