package guardtest

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Options are the options that httplimit and grpclimit have in common. O is the package's Option.
type Options[O any] struct {
	Package                string
	Wait, Spread, Deadline func(time.Duration) O
	MaxWaiting             func(int) O
	OnFailure              func(limit.FailureMode) O
	OnRedisChange          func(func(node string, up bool, err error)) O
	Shadow                 func() O
	Random                 func(func(n int64) int64) O // of Spread
}

// Of appends the options of settings to others.
func (o Options[O]) Of(s Settings, opts ...O) []O {
	opts = append(opts, o.OnFailure(s.Mode), o.OnRedisChange(s.OnRedisChange))
	for _, option := range []struct {
		set bool
		of  func() O
	}{
		{s.Wait != 0, func() O { return o.Wait(s.Wait) }},
		{s.Spread != 0, func() O { return o.Spread(s.Spread) }},
		{s.Deadline != 0, func() O { return o.Deadline(s.Deadline) }},
		{s.MaxWaiting != 0, func() O { return o.MaxWaiting(s.MaxWaiting) }},
		{s.Shadow, o.Shadow},
		{s.Random != nil, func() O { return o.Random(s.Random) }},
	} {
		if option.set {
			opts = append(opts, option.of())
		}
	}
	return opts
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
