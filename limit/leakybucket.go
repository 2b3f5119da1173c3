package limit

import (
	"time"
)

// LeakyBucket has a level, 0 at first, that rises by what is taken, to Capacity at most, and falls by Leak in every Interval,
// evenly.
//
// With [Limiter.TryAcquire] that is a [TokenBucket] seen from the other side. With [Limiter.Reserve] and [Limiter.Acquire] it is
// a queue that never sends a burst: permits leave one after another, so many of them at a time as a request has, and each
// request once those before it have leaked away. So the level can rise above Capacity, and nothing is granted at once until it
// is below. Where a reservation is cancelled in the midst, what was not built upon goes to whoever comes next, whose moment may lie
// so much closer to the last one's. For bursts up to Capacity and a steady rate behind them take TokenBucket.
//
// It counts exactly as long as the level times the microseconds of Interval is below 2^53, and to 15 digits beyond.
type LeakyBucket struct {
	Capacity int64         // the highest level, 1 to 2^53
	Leak     int64         // permits an Interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
}

func (p LeakyBucket) validate() error {
	return checkBucket("LeakyBucket", "Leak", p.Capacity, p.Leak, p.Interval)
}

func (p LeakyBucket) kind() string { return "leakybucket" }

func (p LeakyBucket) suffix(text []byte) []byte { return named(text, "leaky", p.Interval) }

func (p LeakyBucket) settings(text []byte) []byte { return p.token().settings(text) }

// token is the TokenBucket that grants the same at once.
func (p LeakyBucket) token() TokenBucket { return TokenBucket{p.Capacity, p.Leak, p.Interval} }

func (p LeakyBucket) arguments(args []string, now time.Time) []string {
	return p.token().arguments(args, now)
}

func (p LeakyBucket) keeps() []string { return inString }

func (p LeakyBucket) most() int64 { return p.Capacity }

func (p LeakyBucket) outlook(now int64, told []int64) (outlook, bool) {
	return p.token().outlook(now, told)
}
