package guard

import (
	"errors"
	"fmt"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Invalidf returns an error that describes what a request lacks, and that is [limit.ErrInvalidRequest].
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), ""}
}

// Lackingf is Invalidf for a request that lacks a header or metadata, which its client may learn.
func Lackingf(field, format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), field}
}

// LackOf returns the header or metadata that a request lacks, "" if the error is about none.
func LackOf(err error) string {
	var invalid *invalidError
	if errors.As(err, &invalid) {
		return invalid.field
	}
	return ""
}

type invalidError struct {
	text  string
	field string // that the request lacks; not its value
}

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return limit.ErrInvalidRequest }
