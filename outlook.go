package rratelimiter

import (
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// outlook is a limiter as the acquire script found it.
type outlook struct {
	rate     int64
	interval time.Duration
	reset    time.Duration // until every permit is free again, where the reply told
	free     int64         // below 0 where more are taken than the rate
	returns  []returning   // when permits come back, the earliest first: as many as the script says, or a page
	now      int64         // Unix milliseconds of the clock that the script went by, which all times count from
}

// returning says that by a moment so many permits have come back, those before included.
type returning struct {
	after   time.Duration
	permits int64
}

// Limit is the rate.
func (o *outlook) Limit() int64 { return o.rate }

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

// Keep is a copy.
func (o *outlook) Keep() engine.Outlook {
	kept := *o
	kept.returns = slices.Clone(o.returns)
	return &kept
}

// Shows says whether what was read is the limiter of this outlook.
func (o *outlook) Shows(found []rueidis.RedisResult) bool {
	interval := o.interval.Milliseconds()
	config, err := found[0].AsStrSlice()
	if err != nil || len(config) != 3 || config[0] != strconv.FormatInt(o.rate, 10) || config[1] != strconv.FormatInt(interval, 10) {
		return false
	}
	pair := 0
	if config[2] == strconv.Itoa(int(PerClient)) {
		pair = 1
	}
	value, err := found[1+pair].ToString()
	if err != nil || value != strconv.FormatInt(o.free, 10) {
		return false
	}
	grants, err := found[3+pair].AsZScores()
	if err != nil {
		return false
	}
	// The grants, as the script tells when they return. The last return of a page may be cut.
	var returns []returning
	var back int64
	for _, g := range grants {
		if len(g.Member) < 4 {
			return false
		}
		n := len(g.Member) - 4
		back += int64(g.Member[n]) | int64(g.Member[n+1])<<8 | int64(g.Member[n+2])<<16 | int64(g.Member[n+3])<<24
		after := millis(max(0, int64(g.Score)+interval-o.now))
		if last := len(returns) - 1; last >= 0 && returns[last].after == after {
			returns[last].permits = back
		} else if len(returns) == len(o.returns) {
			break
		} else {
			returns = append(returns, returning{after, back})
		}
	}
	for i, r := range o.returns {
		exact := i+1 < len(o.returns)
		if i >= len(returns) || returns[i].after != r.after || returns[i].permits < r.permits || exact && returns[i].permits != r.permits {
			return false
		}
	}
	return true
}
