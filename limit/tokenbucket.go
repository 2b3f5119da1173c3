package limit

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TokenBucket holds up to Capacity permits, full at first, and gets Refill permits in every
// Interval, evenly.
//
// Over any period it grants at most Capacity and the permits that are refilled in it: a burst, and
// then a steady rate. If callers wait, the period is longer by a call: see [Limiter.Acquire]. It is exact
// while Capacity times the microseconds of Interval is below 2^53. Above that, counts are rounded to 15
// digits.
type TokenBucket struct {
	Capacity int64         // the largest burst, 1 to 2^53
	Refill   int64         // permits an Interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
}

var _ = policy.Register(policy.Kind[TokenBucket]{
	Name:     "token_bucket",
	Describe: func(p TokenBucket) policy.Description { return bucketDescription("bucket", p) },
	Fields:   []policy.Field{capacityField},
	New: func(r policy.Rate) TokenBucket {
		return TokenBucket{cmp.Or(policy.Value[int64](r, "capacity"), r.Permits), r.Permits, r.Interval}
	},
	Words: []string{"bucket"},
	Read:  TokenBucket.read,
})

// read reads "<epoch> <at, us> <taken> <part> <rate>", and the two numbers that may follow. The key expires
// fullFor after the bucket is full, from which the refill is computed.
func (p TokenBucket) read(c policy.Content) (s policy.State, ok bool) {
	fields := strings.Split(c.Text, " ")
	if len(fields) < 5 || len(fields) > 7 {
		return s, false
	}
	for i, field := range fields[4:] { // they may be larger than an int64
		if i == 2 {
			field = strings.TrimPrefix(field, "-")
		}
		if field == "" || strings.Trim(field, "0123456789") != "" {
			return s, false
		}
	}
	n, ok := numbersOf(fields[1:4]...)
	if !ok {
		return s, false
	}
	missing := float64(n[1]) + float64(n[2])/float64(p.Interval.Microseconds())
	s = policy.State{Ends: max(0, c.TTL-fullFor.Milliseconds()), About: true}
	left, passed := float64(s.Ends)*1000, float64(max(0, c.Now.UnixMicro()-n[0]))
	if c.TTL < 0 {
		left, passed = 1, 0
	}
	if left+passed > 0 {
		s.Taken = int64(missing*left/(left+passed) + 0.5)
	}
	return s, true
}

var capacityField = policy.Field{Name: "capacity", Type: policy.Count, Min: 1, Max: maxPermits,
	Want: "a whole number of permits, 1 to 2^53"}

// bucketDescription describes a bucket whose keys begin with a word, which is its label too.
func bucketDescription(word string, p TokenBucket) policy.Description {
	return policy.Description{
		Key: keyPart(word, p.Interval), Label: word, Quota: p.Capacity, Refill: policy.Evenly, Interval: p.Interval,
		Window: time.Duration(min(math.Ceil(float64(p.Capacity)/float64(p.Refill)*float64(p.Interval)), 1<<61)),
		Local:  policy.Local{Permits: p.Capacity, Returns: p.Refill, Interval: p.Interval},
	}
}

func (p TokenBucket) validate() error {
	return checkBucket("TokenBucket", "Refill", p.Capacity, p.Refill, p.Interval)
}

func checkBucket(kind, rate string, capacity, refill int64, interval time.Duration) error {
	return cmp.Or(checkPermits(kind, "Capacity", capacity), checkPermits(kind, rate, refill),
		checkInterval(kind, "Interval", interval))
}

func (p TokenBucket) arguments(args []string, _ time.Time) []string {
	return append(args, strconv.FormatInt(p.Capacity, 10), strconv.FormatInt(p.Refill, 10),
		strconv.FormatInt(p.Interval.Microseconds(), 10))
}

func (p TokenBucket) forecast(r *redisx.Reply) forecast { return p.bucket(r) }

func (p TokenBucket) bucket(r *redisx.Reply) bucketForecast {
	return bucketForecast{
		usage{p.Capacity, r.Number()}, p.Refill, p.Interval.Microseconds(), r.Number(), micros(r.Number()), stays(r),
	}
}

// stays reads how long the state that Peek reports stays, if a call with another rate has set its TTL.
func stays(r *redisx.Reply) time.Duration {
	if r.Len() == 0 {
		return engine.Never
	}
	return micros(r.Number())
}

// bucketForecast is a bucket that fills, or empties, evenly.
type bucketForecast struct {
	usage
	refill, interval int64
	part             int64         // of another permit that is taken, in parts of an interval
	begins           time.Duration // from now: above 0 if the clock was set back, below 0 for a waiter
	stays            time.Duration // at most
}

func (o bucketForecast) Free() int64 { return o.usage.Free() - min(o.part, 1) }

// after returns the time until so many permits are free. As in the script, amounts are in parts and
// as exact as a double.
func (o bucketForecast) after(permits int64) time.Duration {
	missing := float64(o.taken-o.permits) + float64(permits)
	missing = float64(missing*float64(o.interval)) + float64(o.part)
	if missing <= 0 {
		return 0
	}
	after := math.Ceil(missing / float64(o.refill))
	return min(o.stays, max(0, add(micros(int64(min(after, math.MaxInt64/2))), o.begins)))
}

func (o bucketForecast) wait(permits int64) (time.Duration, bool) { return o.after(permits), true }

func (o bucketForecast) reset(later int64) time.Duration { return o.after(o.permits - later) }

// Earliest does not count on a clock that was set back: the grant of a Client with another clock moves
// the time of the state.
func (o bucketForecast) Earliest(ahead, permits int64) time.Duration {
	o.begins = min(0, o.begins)
	return o.after(ahead + permits)
}
