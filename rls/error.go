package rls

import (
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ConfigError is one problem of a configuration file, with its place.
type ConfigError struct {
	File   string // as passed to Load, or the name of a file in a directory
	Line   int    // from 1; 0 for the file as a whole
	Field  string // for instance "descriptors[0].rate_limit.unit"; "" for the file as a whole
	Reason string // the problem, with the value and what to write instead
}

// Error returns "file:line: field: reason".
func (e *ConfigError) Error() string {
	p := rulefile.Problem{File: e.File, Line: e.Line, Field: e.Field, Reason: e.Reason}
	return p.Error()
}

// joinErrors joins problems into one error, nil if there are none.
func joinErrors(problems []*rulefile.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, &ConfigError{p.File, p.Line, p.Field, p.Reason})
	}
	return errors.Join(errs...)
}

// invalidf returns the error of an invalid request.
func invalidf(format string, values ...any) error {
	return status.Errorf(codes.InvalidArgument, "rls: "+format, values...)
}
