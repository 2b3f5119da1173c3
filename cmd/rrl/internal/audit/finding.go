// Package audit reports problems of limiters and repairs those with one correct repair. A repair is one
// script call, or one per page of grants. A script changes nothing if the limiter has changed since it
// was read.
package audit

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Severity is the severity of a finding.
type Severity string

// Severities.
const (
	Problem Severity = "problem" // the limiter does not do what it should
	Note    Severity = "note"    // the limiter works
)

// Finding is one problem.
type Finding struct {
	Kind     string     `json:"kind"`
	Severity Severity   `json:"severity"`
	Limiter  names.Name `json:"limiter"`
	Key      names.Name `json:"key"`
	Text     string     `json:"text"`
	Repair   string     `json:"repair,omitempty"` // what the repair does, "" if there is none
	Result   string     `json:"result,omitempty"` // the result of the repair

	repair func(ctx context.Context, redis *inspect.Reader) (done bool, err error)
}

// Kinds of findings.
const (
	KindConfig  = "config"  // the configuration is invalid
	KindValue   = "value"   // the free permits do not match the grants
	KindOrphan  = "orphan"  // state that no limiter uses
	KindIdle    = "idle"    // the pair of a client that has taken nothing for an interval
	KindMember  = "member"  // a member that is not a grant, or a grant in an old format
	KindExpiry  = "expiry"  // state that expires later or earlier than its limiter
	KindName    = "name"    // a name whose keys are in several slots, or shared with another name
	KindWindow  = "window"  // an interval with more permits than the rate
	KindClock   = "clock"   // grants in the future
	KindStrange = "strange" // a key named like a policy's with other content
)

// Values of Finding.Result.
const (
	Repaired = "repaired"
	Failed   = "failed"
	Changed  = "unchanged, since the limiter has changed meanwhile"
	Partly   = "repaired in part, since the limiter has changed meanwhile"
	Refused  = "unchanged"
	Untried  = "not tried"
)

// errPartly is returned if the limiter changed after the first of several scripts.
var errPartly = errors.New("repaired in part")

// Fix repairs a finding and sets its Result. It returns the error of Redis.
func (f *Finding) Fix(ctx context.Context, r *inspect.Reader) error {
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
