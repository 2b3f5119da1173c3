package guardtest

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Options are the options that httplimit and grpclimit have in common. O is the package's Option.
type Options[O any] struct {
	Package    string
	Wait       func(time.Duration) O
	MaxWaiting func(int) O
	Spread     func(time.Duration) O
	Deadline   func(time.Duration) O
	OnFailure  func(limit.FailureMode) O
}

// TestOptions checks that invalid arguments panic with their reason.
func TestOptions[O any](t *testing.T, o Options[O]) {
	calls := make(map[string]func())
	for want, call := range map[string]func(){
		"Wait: the duration is not positive: 0s":     func() { o.Wait(0) },
		"MaxWaiting: the number is below 1: 0":       func() { o.MaxWaiting(0) },
		"Spread: the duration is negative: -1ns":     func() { o.Spread(-1) },
		"Deadline: the duration is not positive: 0s": func() { o.Deadline(0) },
		"OnFailure: a share of the limit is 2":       func() { o.OnFailure(2) },
	} {
		calls[o.Package+": "+want] = call
	}
	TestPanics(t, calls)
}
