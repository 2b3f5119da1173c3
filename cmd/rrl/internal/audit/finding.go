// Package audit reports what is wrong with limiters, and repairs what can be repaired without
// guessing. A repair is a script, or one for each page of grants. A script changes nothing if the
// limiter has changed since it was looked at.
package audit

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/look"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Problem Severity = "problem" // the limiter does not do what it should
	Note    Severity = "note"    // the limiter works, and a user may want to know
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind     string     `json:"kind"`
	Severity Severity   `json:"severity"`
	Limiter  names.Name `json:"limiter"`
	Key      names.Name `json:"key"`
	Text     string     `json:"text"`
	Repair   string     `json:"repair,omitempty"` // what a repair does, "" where there is none
	Result   string     `json:"result,omitempty"` // what became of it

	repair func(ctx context.Context, redis *look.Reader) (done bool, err error)
}

// The kinds of findings.
const (
	KindConfig  = "config"  // the configuration cannot be read
	KindValue   = "value"   // the free permits do not go with the grants
	KindOrphan  = "orphan"  // state without a limiter that counts by it
	KindIdle    = "idle"    // the pair of a client that takes nothing any more
	KindMember  = "member"  // a grant that is none, or one as old releases wrote it
	KindExpiry  = "expiry"  // state that lives longer or shorter than its limiter
	KindName    = "name"    // a name whose keys no cluster holds together, or that shares them
	KindWindow  = "window"  // an interval with more permits than the rate
	KindClock   = "clock"   // grants from the future
	KindStrange = "strange" // a key of package limit's name that holds something else
)

// What Finding.Result can be.
const (
	Repaired = "repaired"
	Failed   = "failed"
	Changed  = "unchanged, since the limiter has changed meanwhile"
	Partly   = "repaired in part, since the limiter has changed meanwhile"
	Refused  = "unchanged"
	Untried  = "not tried"
)

// errPartly is returned by a repair of several scripts if the limiter has changed after the first.
var errPartly = errors.New("repaired in part")

// Fix repairs a finding and sets its Result. The error is as Redis said it.
func (f *Finding) Fix(ctx context.Context, r *look.Reader) error {
	if f.repair == nil {
		return nil
	}
	done, err := f.repair(ctx, r)
	switch {
	case errors.Is(err, errPartly):
		f.Result, err = Partly, nil
	case err != nil:
		f.Result = Failed
	case done:
		f.Result = Repaired
	default:
		f.Result = Changed
	}
	return err
}
