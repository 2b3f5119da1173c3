package engine

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Forecast predicts, from a reply, when permits are free. It is immutable.
type Forecast interface {
	// Limit returns the largest number of permits that can be granted at once.
	Limit() int64

	// Free returns the permits that all parts had free. It is below 0 if more were taken than
	// exist.
	Free() int64

	// Granted returns the answer to a request that the call granted, which granted later permits to
	// requests behind it. GrantedParts returns that of each part, for an Ask with Each; nil without parts.
	Granted(later int64) Decision
	GrantedParts(later int64) []Decision

	// Denied returns the answer to a request for permits that are not free, at the time of the
	// reply. It returns false if the reply does not determine it.
	Denied(permits int64) (Decision, bool)

	// Parts returns the answer of each part to such a request, for an Ask with Each; nil without
	// parts.
	Parts(permits int64) []Decision

	// Lag returns how much later than RetryAfter the first of waiters for so many permits may ask, at
	// random: see rratelimiter.WithWaitJitter. It returns 0 if a waiter asks on time.
	Lag(wanted int64) time.Duration

	// Renew returns how long after the reply another call has to be sent, so that the limiter does
	// not expire while callers ask or wait. It returns Never if no call is needed.
	Renew() time.Duration

	// Earliest returns how long after the reply permits can be granted behind requests for so many
	// ahead of them. The true time may be later, but not earlier.
	Earliest(ahead, permits int64) time.Duration
}

// Never is a duration that does not end.
const Never = time.Duration(1<<63 - 1)

// Ask is a caller's request for permits.
type Ask struct {
	Permits int64 // the fewest that are granted
	UpTo    int64 // if it is above Permits, the most: as many as are free
	Detail  bool  // all fields of the Decision, not only Allowed
	Each    bool  // Result.Parts too
	Receipt bool  // Result.Refund and Result.Hold too
}

// Decision is the decision on a request.
type Decision struct {
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Result is the answer to an Ask.
type Result struct {
	Decision
	Granted int64      // permits
	Parts   []Decision // of each part of the limiter, for an Ask with Each
	From    Source

	// Of the receipt for the granted permits; nil if the Protocol has none.
	Refund receipt.Refund
	Hold   *hold.Hold

	deducted time.Time // Redis counted the prefetches that had arrived by then as taken when it computed Remaining
}

// Source is where a decision was made.
type Source uint8

// The sources.
const (
	FromRedis Source = iota
	FromMemory
	FromPrefetch
)

// knowledge is what the last reply of a limiter reported, and what follows from it. A queue goes by it, and so do
// denials from memory. It has no clock: its methods get the time. Another reply replaces it, and a change of a key
// ends it.
type knowledge struct {
	Forecast Forecast // nil if the reply had none
	Denied   int64    // the fewest permits that were denied, 0 for none

	begins  time.Time     // when the Forecast begins
	Sent    time.Time     // when the call was sent; zero in a queue whose last call has failed, or that had none
	dated   time.Time     // Sent by the limiter's clock, as precise as in the arguments
	version uint64        // of the keys when the call was sent: see changes
	took    time.Duration // how long the call took; only a queue sets it
}

// isAbove reports whether so many permits can never be granted.
func (k *knowledge) isAbove(permits int64) bool {
	return k.Forecast != nil && permits > k.Forecast.Limit()
}

// resultOfDenial returns the result of a request that is denied so long after the Forecast began. It returns false if
// the Forecast does not determine it.
func (k *knowledge) resultOfDenial(ask Ask, age time.Duration) (r Result, known bool) {
	r.Decision, known = k.Forecast.Denied(ask.Permits)
	r.RetryAfter -= age
	r.ResetAfter = max(0, r.ResetAfter-age)
	if !ask.Each {
		return r, known
	}
	r.Parts = k.Forecast.Parts(ask.Permits)
	for i := range r.Parts {
		p := &r.Parts[i]
		p.RetryAfter, p.ResetAfter = max(0, p.RetryAfter-age), max(0, p.ResetAfter-age)
		p.Allowed = p.RetryAfter == 0 // one part may have its permits free again while another denies
	}
	return r, known
}

// polls reports whether permits may return at any time. Then a queue sends a call after each RetryAfter, and none
// before it for a new waiter: one whose deadline is earlier ends without a call.
func (k *knowledge) polls(permits int64, now time.Time) bool {
	if k.Forecast == nil {
		return false
	}
	denied, known := k.Forecast.Denied(permits)
	isRecent := now.Sub(k.begins) < 2*denied.RetryAfter // else Redis does not answer
	return isRecent && !known && k.Forecast.Earliest(0, permits) < denied.RetryAfter
}

// servable returns when to send a call for the first waiter: at RetryAfter. That can be later than Earliest, since a
// call at the end of another Client's prefetch may find its unused permits not yet returned. Then the next call would be
// an interval later. If RetryAfter is known and too late for the deadline of the waiter, the call is sent halfway between
// Earliest and the deadline.
func (k *knowledge) servable(permits int64, deadline time.Time) time.Time {
	if k.Forecast == nil || k.isAbove(permits) {
		return k.begins
	}
	denied, known := k.Forecast.Denied(permits)
	at := k.begins.Add(denied.RetryAfter)
	if known && !deadline.IsZero() && at.After(deadline) {
		from := k.begins.Add(k.Forecast.Earliest(0, permits))
		at = from.Add(max(0, deadline.Sub(from)) / 2)
	}
	return at
}

// missedBy returns the earliest time after now at which a waiter can be served behind others that want ahead permits,
// if that is after its deadline. It returns 0 if the waiter may be served in time.
//
// It adds the time of the last call and an eighth of that. Otherwise the next call would take permits for waiters that
// leave before its reply. In a queue that always ends at deadlines, such waiters can take most of a bucket: their permits
// return too late. Permits that were free are not denied by the time of a call, which is a guess.
func (k *knowledge) missedBy(permits, ahead int64, deadline, now time.Time) time.Duration {
	if deadline.IsZero() || k.Forecast == nil {
		return 0
	}
	after := k.Forecast.Earliest(ahead, permits)
	if free := after == 0 && k.Forecast.Free()-ahead >= permits; !free && after < Never {
		after = max(0, after-now.Sub(k.begins)) + k.took + k.took/8
	}
	if after <= deadline.Sub(now) {
		return 0
	}
	return max(after, 1)
}

// resultBehind returns the result of a waiter that is denied behind others that want ahead permits.
func (k *knowledge) resultBehind(ask Ask, ahead int64, now time.Time) (r Result) {
	if k.Forecast == nil || !ask.Detail {
		return r
	}
	age := now.Sub(k.begins)
	r, _ = k.resultOfDenial(ask, age)
	r.RetryAfter = max(soon, r.RetryAfter, k.Forecast.Earliest(ahead, ask.Permits)-age)
	return r
}

// Elapsed returns the time between two readings of the clock: the longer one of two clocks. The monotonic one may stop
// while the machine sleeps, and the wall clock may be set back.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Sub(from.Round(0)))
}

// soon is the RetryAfter of a waiter that is denied although its permits may be free: its reply has not arrived in
// time.
const soon = time.Millisecond
