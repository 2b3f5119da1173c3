package ledger

import (
	"sync/atomic"
	"time"
)

// Longest is the longest of some durations, at least 0. It is safe for concurrent use.
type Longest struct{ nanos atomic.Int64 }

// Add adds a duration.
func (l *Longest) Add(d time.Duration) {
	for before := l.nanos.Load(); int64(d) > before && !l.nanos.CompareAndSwap(before, int64(d)); before = l.nanos.Load() {
	}
}

// Get returns the longest duration so far.
func (l *Longest) Get() time.Duration { return time.Duration(l.nanos.Load()) }
