package rratelimiter

import (
	"sort"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// forecast is the state of a limiter in a reply of the acquire script, from which waiting times
// follow.
type forecast struct {
	rate     int64
	interval time.Duration
	reset    time.Duration // until all permits are free, if the reply has it
	free     int64         // below 0 if more than the rate is taken
	returns  []returning   // when permits return, the earliest first; at most a page
}

// returning is the number of permits that return within a time, earlier ones included.
type returning struct {
	after   time.Duration
	permits int64
}

// Limit returns the rate.
func (o *forecast) Limit() int64 { return o.rate }

// Free returns the value.
func (o *forecast) Free() int64 { return o.free }

// after returns the time until permits are free. If not enough returns are known, it returns the
// last known one and false.
func (o *forecast) after(permits int64) (after time.Duration, known bool) {
	need := permits - o.free
	if need <= 0 || len(o.returns) == 0 {
		return 0, need <= 0
	}
	last := len(o.returns) - 1
	i := sort.Search(last, func(i int) bool { return o.returns[i].permits >= need })
	return o.returns[i].after, o.returns[i].permits >= need
}

// Denied returns the answer to a request for more permits than are free.
func (o *forecast) Denied(permits int64) (engine.Answer, bool) {
	after, known := o.after(permits)
	return engine.Answer{Limit: o.rate, Remaining: max(0, o.free), RetryAfter: after, ResetAfter: o.reset}, known
}

// Parts returns nil: a rate has no parts.
func (o *forecast) Parts(int64) []engine.Answer { return nil }

// Earliest returns the time until the last of the wanted permits can be granted. Permits return one
// after another. If more than the rate is wanted, they return again an interval after they were
// granted again.
func (o *forecast) Earliest(wanted int64) time.Duration {
	rounds := (wanted - 1) / o.rate
	after, _ := o.after(wanted - rounds*o.rate)
	if o.interval > 0 && rounds > int64((engine.Never-after)/o.interval) {
		return engine.Never
	}
	return after + time.Duration(rounds)*o.interval
}

// TighterThan reports whether the rate was lowered or the interval lengthened.
func (o *forecast) TighterThan(earlier engine.Forecast) bool {
	before, ok := earlier.(*forecast)
	return !ok || o.rate < before.rate || o.interval > before.interval
}
