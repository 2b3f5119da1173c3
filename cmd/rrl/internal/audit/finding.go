// Package audit reports problems of limiters and repairs those with one correct repair. An expiry is
// repaired by PEXPIRE or PERSIST, state that no limiter uses by UNLINK, and drift by the library's count.
package audit

import "github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"

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

	Corrupt bool    `json:"-"` // calls of the libraries fail
	repair  *repair // nil if there is none
}

// Kinds of findings.
const (
	KindConfig  = "config"  // the configuration is invalid
	KindValue   = "value"   // the free permits do not match the grants
	KindOrphan  = "orphan"  // state that no limiter uses
	KindIdle    = "idle"    // the pair of a client that has taken nothing for an interval
	KindMember  = "member"  // a member that is not a grant
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
)
