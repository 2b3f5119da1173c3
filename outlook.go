package rratelimiter

import (
	"sort"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// outlook is a limiter as the acquire script found it.
type outlook struct {
	rate     int64
	interval time.Duration
	reset    time.Duration // until every permit is free again, where the reply told
	free     int64         // below 0 where more are taken than the rate
	returns  []returning   // when permits come back, the earliest first: as many as the script says, or a page
}

// returning says that by a moment so many permits have come back, those before included.
type returning struct {
	after   time.Duration
	permits int64
}

// Limit is the rate.
func (o *outlook) Limit() int64 { return o.rate }

// Free is the value.
func (o *outlook) Free() int64 { return o.free }

// after says how long it takes until so many permits are free, or where only the first returns are known, how long at
// least.
func (o *outlook) after(permits int64) (after time.Duration, known bool) {
	need := permits - o.free
	if need <= 0 || len(o.returns) == 0 {
		return 0, need <= 0
	}
	last := len(o.returns) - 1
	i := sort.Search(last, func(i int) bool { return o.returns[i].permits >= need })
	return o.returns[i].after, o.returns[i].permits >= need
}

// Denied is the answer to who asks for more than is free.
func (o *outlook) Denied(permits int64) (engine.Answer, bool) {
	after, known := o.after(permits)
	return engine.Answer{Limit: o.rate, Remaining: max(0, o.free), RetryAfter: after, ResetAfter: o.reset}, known
}

// Parts: a rate has none.
func (o *outlook) Parts(int64) []engine.Answer { return nil }

// Earliest says when the last of so many permits could be granted. They come back one after another, and once more, an
// interval after they were granted again, where more is wanted than the rate.
func (o *outlook) Earliest(wanted engine.Total) time.Duration {
	times, rest, ok := wanted.Rounds(o.rate)
	after, _ := o.after(rest)
	every := uint64(o.interval)
	if !ok || times > 0 && every > uint64(engine.Never)/times || after > engine.Never-time.Duration(times*every) {
		return engine.Never
	}
	return after + time.Duration(times*every)
}

// Worse says that the rate was lowered or the interval lengthened.
func (o *outlook) Worse(than engine.Outlook) bool {
	before, ok := than.(*outlook)
	return !ok || o.rate < before.rate || o.interval > before.interval
}
