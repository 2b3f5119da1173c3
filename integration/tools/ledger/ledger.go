// Package ledger records a run of many callers of one limiter: every grant with its times, every
// denial and every error. It computes the fullest window and a table of figures.
package ledger

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Grant is a successful call. Start is read on the caller's clock right before the call, End right
// after it. The grant took effect between them.
type Grant struct {
	Start, End time.Time
	Permits    int64
	Who        string
}

// Failure is a failed call, with the times and the caller of a Grant, its error and the kind of that.
type Failure struct {
	Start, End time.Time
	Kind       string
	Err        error
	Who        string
}

// Unclassified is the kind of errors that the classifier does not know. A run with such an error
// has an unexpected error.
const Unclassified = "unclassified"

// Ledger is the log of a run. It is safe for concurrent use.
type Ledger struct {
	classify func(error) string

	mu       sync.Mutex
	grants   []Grant
	denials  int64
	errors   map[string]int64
	failures []Failure
}

// New returns an empty ledger. The classifier returns the kind of an error, a few words for a table,
// or "" for an unknown error.
func New(classify func(error) string) *Ledger {
	return &Ledger{classify: classify, errors: make(map[string]int64)}
}

// Time makes a call, books its result, and returns it.
func (l *Ledger) Time(who string, permits int64, call func() (granted bool, err error)) (bool, error) {
	start := time.Now()
	granted, err := call()
	end := time.Now()
	switch {
	case err != nil:
		l.FailedAt(Failure{Start: start, End: end, Kind: l.classify(err), Err: err, Who: who})
	case granted:
		l.Granted(Grant{Start: start, End: end, Permits: permits, Who: who})
	default:
		l.Denied(1)
	}
	return granted, err
}

// Granted books successful calls.
func (l *Ledger) Granted(grants ...Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants = append(l.grants, grants...)
}

// Denied books n denied calls.
func (l *Ledger) Denied(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denials += n
}

// Failed books n calls that failed with the error, without their times.
func (l *Ledger) Failed(err error, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors[cmp.Or(l.classify(err), Unclassified)] += n
}

// FailedAt books a failed call, with its times.
func (l *Ledger) FailedAt(f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.Kind = cmp.Or(f.Kind, Unclassified)
	l.failures = append(l.failures, f)
	l.errors[f.Kind]++
}

// Grants returns all grants in the order of booking.
func (l *Ledger) Grants() []Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.grants)
}

// GrantedAfter reports whether a call that began after a time got its permits.
func (l *Ledger) GrantedAfter(after time.Time) bool {
	return slices.ContainsFunc(l.Grants(), func(g Grant) bool { return g.Start.After(after) })
}

// Permits returns the sum of all grants.
func (l *Ledger) Permits() (sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		sum += g.Permits
	}
	return sum
}

// Denials returns the number of denied calls.
func (l *Ledger) Denials() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denials
}

// Errors returns the number of failed calls by kind.
func (l *Ledger) Errors() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.errors)
}

// Failures returns the failed calls with known times.
func (l *Ledger) Failures() []Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failures)
}

// Unclassified returns the errors of calls with times that the classifier does not know.
func (l *Ledger) Unclassified() (errs []error) {
	for _, f := range l.Failures() {
		if f.Kind == Unclassified {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// Worst returns the fullest window of the grants: see the function of that name.
func (l *Ledger) Worst(interval time.Duration) Window { return Worst(l.Grants(), interval) }

// Longest is the longest of some durations, at least 0. It is safe for concurrent use.
type Longest struct{ nanos atomic.Int64 }

// Add adds a duration.
func (l *Longest) Add(d time.Duration) {
	for before := l.nanos.Load(); int64(d) > before && !l.nanos.CompareAndSwap(before, int64(d)); before = l.nanos.Load() {
	}
}

// Get returns the longest duration so far.
func (l *Longest) Get() time.Duration { return time.Duration(l.nanos.Load()) }
