package guard

import (
	"fmt"
	"time"
)

// The functions of this file are the options that packages httplimit and grpclimit have in common. Each
// checks its argument, and panics with a text that begins with the name of the package.

// Change is an option: it changes the settings.
type Change = func(*Settings)

// Wait is the option of the longest wait.
func Wait(pkg string, d time.Duration) Change {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Wait: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Wait, s.AtOnce = d, false }
}

// MaxWaiting is the option of the largest number of waiters.
func MaxWaiting(pkg string, n int) Change {
	if n < 1 {
		panic(fmt.Sprintf("%s: MaxWaiting: the number is below 1: %d", pkg, n))
	}
	return func(s *Settings) { s.MaxWaiting = n }
}

// SpreadBy is the option of the random part of times to retry.
func SpreadBy(pkg string, d time.Duration) Change {
	if d < 0 {
		panic(fmt.Sprintf("%s: Spread: the duration is negative: %v", pkg, d))
	}
	return func(s *Settings) { s.Spread.Most = d }
}

// Local returns the mode of a share of the limit.
func Local(pkg string, share float64) Mode {
	if !(share > 0 && share <= 1) {
		panic(fmt.Sprintf("%s: Local: the share is out of range: %v: pass one above 0 and at most 1", pkg, share))
	}
	return Mode(share)
}

// OnFailure is the option of the mode.
func OnFailure(pkg string, mode Mode) Change {
	if err := mode.Check(); err != nil {
		panic(pkg + ": OnFailure: " + err.Error())
	}
	return func(s *Settings) { s.Mode = mode }
}

// Deadline is the option of the deadline.
func Deadline(pkg string, d time.Duration) Change {
	if d <= 0 {
		panic(fmt.Sprintf("%s: Deadline: the duration is not positive: %v", pkg, d))
	}
	return func(s *Settings) { s.Deadline = d }
}

// Apply applies options to settings, and returns these. A nil option has no effect.
func Apply[S any, O ~func(*S)](s *S, options []O) *S {
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	return s
}
