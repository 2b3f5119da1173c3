package limit

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Smooth grants permits at a steady rate, as the RateLimiter of Guava does. A request of any size
// is granted at once if all earlier grants have been paid for with time; the next request waits for
// its cost. So it suits requests of very different sizes.
//
// Unused time is stored as permits, up to Burst, which cost nothing (SmoothBursty). With WarmUp,
// unused time makes permits more expensive, up to three times, and it takes WarmUp to return
// to the steady rate (SmoothWarmingUp). This suits a cache or a pool of connections that is slow at
// first. A new name starts with all of Burst stored, or with WarmUp at the highest cost.
//
// In a Decision, Limit is Permits, Remaining the stored permits (0 during a wait), RetryAfter the
// wait, and ResetAfter the time until the state is that of a new name. No time is beyond 2^53
// microseconds, in the year 2255. A request that would cost more than 142 years is
// [rratelimiter.ErrPermitsExceedRate].
type Smooth struct {
	Permits  int64         // an Interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
	Burst    time.Duration // how much time is stored, whole milliseconds; 0: 1 s; with WarmUp it has no meaning
	WarmUp   time.Duration // whole milliseconds; 0: none
}

var _ = policy.Register(policy.Kind[Smooth]{
	Name:     "smooth",
	Describe: Smooth.describe,
	Fields:   []policy.Field{{Name: "burst", Type: policy.Duration}, {Name: "warm_up", Type: policy.Duration}},
	New: func(r policy.Rate) Smooth {
		burst, warmUp := policy.Value[time.Duration](r, "burst"), policy.Value[time.Duration](r, "warm_up")
		return Smooth{r.Permits, r.Interval, burst, warmUp}
	},
	Words:   []string{"smooth", "warmup"},
	FromKey: smoothOfKey,
	Short: func(p Smooth) string {
		if p.WarmUp > 0 {
			return ",warm_up"
		}
		return ""
	},
	Read: Smooth.read,
})

// describe has a key for each price: stored permits cost nothing without a warm-up, and more with one.
func (p Smooth) describe() policy.Description {
	word := "smooth"
	if p.WarmUp > 0 {
		word = "warmup"
	}
	stored := float64(p.Permits) * cmp.Or(p.Burst, defaultBurst).Seconds() / p.Interval.Seconds()
	return policy.Description{
		Key: keyPart(word, p.Interval), Label: "smooth", Quota: p.Permits, Most: p.most(), Window: p.Interval,
		Interval: p.Interval, Refill: policy.OnCredit,
		Local: policy.Local{Permits: int64(max(1, min(stored, maxPermits))), Returns: p.Permits, Interval: p.Interval},
	}
}

// smoothOfKey returns a policy of one permit, or of several in an interval of decades: a permit costs
// less than maxCost, also at three times the price.
func smoothOfKey(word, rest string) Smooth {
	p := Smooth{Interval: policy.KeyInterval(rest)}
	p.Permits = 1 + int64(p.Interval/(maxCost/4))
	if word == "warmup" {
		p.WarmUp = time.Second
	}
	return p
}

// read reads "<epoch> <stored permits> <at, us> <wait, us> <rate>".
func (p Smooth) read(c policy.Content) (s policy.State, ok bool) {
	fields := strings.Split(c.Text, " ")
	if len(fields) != 5 {
		return s, false
	}
	if _, err := strconv.ParseFloat(fields[1], 64); err != nil {
		return s, false
	}
	n, ok := numbersOf(fields[2:4]...)
	if !ok {
		return s, false
	}
	return policy.State{Busy: max(0, n[0]+n[1]-c.Now.UnixMicro()) / 1000, Ends: max(0, c.TTL-fullFor.Milliseconds())}, true
}

const (
	defaultBurst = time.Second
	coldFactor   = 3 // how much more a permit costs when cold, as in Guava
)

func (p Smooth) validate() error {
	if err := cmp.Or(
		checkRate("Smooth", p.Permits, p.Interval),
		checkInterval("Smooth", "Burst", cmp.Or(p.Burst, defaultBurst)),
		checkInterval("Smooth", "WarmUp", cmp.Or(p.WarmUp, time.Second))); err != nil {
		return err
	}
	if p.most() == 0 {
		return invalid("Smooth.Permits is %d in an Interval of %v, so that one permit costs more than %v", p.Permits,
			p.Interval, maxCost)
	}
	return nil
}

// maxCost is the largest cost of a request: sums of a few are microseconds below 2^53.
const maxCost = 1 << 52 * time.Microsecond

// curve is the cost of stored permits, in doubles and in the order in which Guava computes it.
// Times are microseconds.
type curve struct {
	stable    float64 // a permit costs at the steady rate
	most      float64 // permits that can be stored
	cool      float64 // until another one is stored
	threshold float64 // above so many stored ones they cost more than stable
	slope     float64 // each of those so much more than the one before; 0 without WarmUp
}

func (p Smooth) curve() curve {
	rate := float64(p.Permits) / p.Interval.Seconds()
	c := curve{stable: 1e6 / rate}
	if p.WarmUp == 0 {
		c.most, c.cool = cmp.Or(p.Burst, defaultBurst).Seconds()*rate, c.stable
		return c
	}
	// The conversions keep a compiler from joining a product and a sum, which would round
	// otherwise.
	warmUp, cold := float64(p.WarmUp.Microseconds()), float64(c.stable*coldFactor)
	c.threshold = 0.5 * warmUp / c.stable
	c.most = c.threshold + float64(2*warmUp)/(c.stable+cold)
	c.slope = (cold - c.stable) / (c.most - c.threshold)
	c.cool = warmUp / c.most
	return c
}

func (p Smooth) arguments(args []string, _ time.Time) []string {
	c := p.curve()
	text := func(x float64) string {
		t := strconv.FormatFloat(x, 'f', -1, 64)
		if x >= 1<<63 {
			t += "." // without a point, miniredis does not read such a number
		}
		return t
	}
	args = append(args, text(c.stable), text(c.most), text(c.cool))
	if p.WarmUp == 0 {
		return append(args, "", "")
	}
	return append(args, text(c.threshold), text(c.slope))
}

// most returns the permits that cost maxCost, each at the highest price.
func (p Smooth) most() int64 {
	c := p.curve()
	price := c.stable + c.slope*(c.most-c.threshold)
	return int64(min(maxPermits, float64(maxCost.Microseconds())/price))
}

func (p Smooth) forecast(r *redisx.Reply) forecast {
	taken := p.Permits - r.Number() // below 0 if more are stored
	next, idle := micros(r.Number()), micros(r.Number())
	return smoothForecast{usage{p.Permits, taken}, next, min(idle, stays(r)), p.curve().stable}
}

// smoothForecast is a time from which the next request is granted. The free permits are those stored.
type smoothForecast struct {
	usage
	next, idle time.Duration // from now
	stable     float64       // microseconds that a permit costs
}

func (o smoothForecast) wait(int64) (time.Duration, bool) { return o.next, true }

// reset: all requests of a call but the last one are granted from stored permits, which are stored
// again at the steady rate.
func (o smoothForecast) reset(later int64) time.Duration {
	return max(0, o.idle-micros(int64(float64(later)*o.stable)))
}

// Earliest is a lower bound: stored permits cost nothing, or more during a warm-up.
func (o smoothForecast) Earliest(ahead, _ int64) time.Duration {
	if o.next == 0 {
		ahead = max(0, ahead-o.Free())
	}
	return add(o.next, micros(int64(min(float64(ahead)*o.stable, math.MaxInt64/2))))
}
