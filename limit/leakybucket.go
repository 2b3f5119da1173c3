package limit

import (
	"cmp"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// LeakyBucket has a level, 0 at first, that rises by the permits that are taken, to at most
// Capacity, and falls by Leak in every Interval, evenly.
//
// With [Limiter.TryAcquire] it grants the same as a [TokenBucket]. With [Limiter.Acquire] and
// [Limiter.TryAcquireWithin] it is a queue without bursts: each request is granted when all permits
// that were taken before have leaked. For bursts up to Capacity and then a steady rate, use
// TokenBucket.
//
// It is exact while the level times the microseconds of Interval is below 2^53. Above that, levels
// are rounded to 15 digits.
type LeakyBucket struct {
	Capacity int64         // the highest level, 1 to 2^53
	Leak     int64         // permits an Interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
}

var _ = policy.Register(policy.Kind[LeakyBucket]{
	Name:     "leaky_bucket",
	Describe: func(p LeakyBucket) policy.Description { return bucketDescription("leaky", p.token()) },
	Fields:   []policy.Field{capacityField},
	New: func(r policy.Rate) LeakyBucket {
		return LeakyBucket{cmp.Or(policy.Value[int64](r, "capacity"), r.Permits), r.Permits, r.Interval}
	},
	Words: []string{"leaky"},
	Read:  func(p LeakyBucket, c policy.Content) (policy.State, bool) { return p.token().read(c) },
})

func (p LeakyBucket) validate() error {
	return checkBucket("LeakyBucket", "Leak", p.Capacity, p.Leak, p.Interval)
}

// token is the TokenBucket that grants the same at once.
func (p LeakyBucket) token() TokenBucket { return TokenBucket{p.Capacity, p.Leak, p.Interval} }

func (p LeakyBucket) arguments(args []string, now time.Time) []string {
	return p.token().arguments(args, now)
}

func (p LeakyBucket) forecast(r *redisx.Reply) forecast { return leakyForecast{p.token().bucket(r)} }

type leakyForecast struct{ bucketForecast }

func (o leakyForecast) forWaiters(bool) forecast { return leakForecast(o) }

// leakForecast is that of callers that wait until all permits that were taken before have leaked.
type leakForecast struct{ bucketForecast }

func (o leakForecast) wait(int64) (time.Duration, bool) { return o.after(o.permits), true }

func (o leakForecast) Earliest(ahead, _ int64) time.Duration {
	return o.bucketForecast.Earliest(ahead, o.permits)
}
