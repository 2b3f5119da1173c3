package rls

import "sync/atomic"

// labelSet identifies a series: a domain, and the first two levels of a rule.
type labelSet struct{ domain, key1, key2 string }

// series has the counters of a rule.
type series [len(counters)]atomic.Uint64

// The indexes of counters.
const (
	totalHits = iota
	overLimit
	nearLimit
	withinLimit
	shadowMode
)

// counters describes the counters of a series.
var counters = [...]struct{ name, help string }{
	totalHits:   {"total_hits", "Hits of a rule."},
	overLimit:   {"over_limit", "Hits that were over the limit."},
	nearLimit:   {"near_limit", "Hits within the limit that were near it."},
	withinLimit: {"within_limit", "Hits within the limit."},
	shadowMode:  {"shadow_mode", "Hits over the limit that shadow mode let pass."},
}
