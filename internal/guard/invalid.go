package guard

import (
	"errors"
	"fmt"
)

// ErrInvalidRequest is the error of a request that lacks what its limit needs, an API key for instance.
var ErrInvalidRequest = errors.New("rratelimiter: the request cannot be limited as it is")

// Invalidf returns an error that says what a request lacks, and is ErrInvalidRequest.
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...)}
}

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalidRequest }

// Invalid answers a request that lacks what its limit needs. No mode lets it pass: a client gains nothing by leaving
// something out.
func Invalid(err error) Answer {
	return Answer{Result: FailedClosed, Invalid: true, Err: err}
}
