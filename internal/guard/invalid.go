package guard

import (
	"errors"
	"fmt"
)

// ErrInvalidRequest is the error of a request that lacks what its limit needs, such as an API key.
var ErrInvalidRequest = errors.New("rratelimiter: invalid request: a key or a cost is missing")

// Invalidf returns an error that describes what a request lacks, and that is ErrInvalidRequest.
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...)}
}

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalidRequest }
