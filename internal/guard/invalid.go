package guard

import (
	"errors"
	"fmt"
)

// ErrInvalidRequest is the error of a request that lacks what its limit needs, such as an API key.
var ErrInvalidRequest = errors.New("guard: invalid request: a key or a cost is missing")

// Invalidf returns an error that describes what a request lacks, and that is ErrInvalidRequest.
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...)}
}

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalidRequest }

// Invalid answers an invalid request. Every mode refuses it, so that a client gains nothing by
// leaving something out.
func Invalid(err error) Answer {
	return Answer{Result: FailedClosed, Invalid: true, Err: err}
}
