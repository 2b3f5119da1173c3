package limit

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Pause denies everything while a pause lasts, in all processes that share the limiter. A pause
// begins with [Limiter.Pause]: for instance when a provider answers 429 with Retry-After. Give it
// beside the policies of the quota, or in a limiter of its own that [Join] adds to others.
//
// When a pause ends, waiting callers would take all that is free at one moment. So after it permits
// come free one after another, for all processes together, until no caller is left that takes each. The
// pace is the rate of the fastest policy beside it. The permits of an interval of more than a minute
// come free within a minute. It ends when as many permits are free as that policy can grant at once. A
// limiter of Redisson's layout sets the pace if no other policy does. A request for several permits
// waits until as many have come free.
//
// A Pause has no permits: its own Decision has a Limit of 0.
type Pause struct {
	Most time.Duration // the longest pause, whole milliseconds
}

var _ = policy.Register(policy.Kind[Pause]{
	Name: "pause",
	Describe: func(Pause) policy.Description {
		return policy.Description{
			Key: "pause", Label: "pause", Most: maxPermits, Refill: policy.Pausing,
			Local: policy.Local{Permits: maxPermits, Returns: maxPermits, Interval: time.Second},
		}
	},
	NoRate:  true,
	Fields:  []policy.Field{{Name: "most", Type: policy.Duration}},
	New:     func(r policy.Rate) Pause { return Pause{policy.Value[time.Duration](r, "most")} },
	Words:   []string{"pause"},
	FromKey: func(_, _ string) Pause { return Pause{time.Millisecond} },
	Read:    func(_ Pause, c policy.Content) (policy.State, bool) { return readPause(c) },
})

// readPause reads "<end, ms> <taken>".
func readPause(c policy.Content) (s policy.State, ok bool) {
	n, ok := numbersOf(strings.Split(c.Text, " ")...)
	if !ok || len(n) != 2 {
		return s, false
	}
	return policy.State{Busy: max(0, n[0]-c.Now.UnixMilli())}, true
}

func (p Pause) validate() error { return checkInterval("Pause", "Most", p.Most) }

func (p Pause) arguments(args []string, _ time.Time) []string { return append(args, "") }

func (p Pause) forecast(r *redisx.Reply) forecast {
	left, taken := micros(r.Number()), r.Number()
	return pauseForecast{usage{r.Number(), taken}, micros(r.Number()), left}
}

// longestPace is the longest time in which all permits of a limiter come free after a pause.
const longestPace = time.Minute

// setPace sets the pace of each Pause among members: that of the policy beside it that returns its
// permits soonest. It is the argument of the script.
func setPace(members []member) {
	pace, soonest := "", math.Inf(1)
	keys := 0
	for _, m := range members {
		d := m.described
		switch {
		case d.Quota > 0 && !isHeld(m):
			if each := d.Local.Interval.Seconds() / float64(d.Local.Returns); each < soonest {
				all := min(longestPace.Seconds(), each*float64(d.Local.Permits))
				soonest = each
				pace = fmt.Sprintf("%d %.0f", d.Local.Permits, max(1, all*1e6))
			}
		case m.redisson != nil && pace == "":
			pace = fmt.Sprintf(" %d", keys+1)
		}
		keys += len(m.types())
	}
	for i := range members {
		if _, ok := members[i].policy.(Pause); ok {
			members[i].arguments = []string{pace}
		}
	}
}

// pauseForecast is a pause, or the time after it.
type pauseForecast struct {
	usage                // permits that come free after it, 0 if nothing denies, and those taken since its end
	within time.Duration // in which they come free
	rest   time.Duration // of the pause; 0 or below after it
}

func (o pauseForecast) paused() bool { return o.rest > 0 }

// paces reports whether permits are coming free after a pause.
func (o pauseForecast) paces() bool { return o.rest <= 0 && o.permits > 0 && o.come() < o.permits }

// come returns the permits that have come free after a pause and were not taken.
func (o pauseForecast) come() int64 {
	since := float64(-o.rest.Microseconds())
	return int64(since*float64(o.permits)/float64(o.within.Microseconds())) + 1 - o.taken
}

func (o pauseForecast) Limit() int64 { return 0 }

func (o pauseForecast) Free() int64 {
	switch {
	case o.paused():
		return 0
	case o.paces():
		return o.come()
	}
	return maxPermits
}

// until returns the time until so many permits are free, or all are.
func (o pauseForecast) until(permits int64) time.Duration {
	due := float64(0)
	if o.permits > 0 {
		missing := float64(o.taken) + float64(min(permits, o.permits)) - 1
		due = math.Ceil(missing * float64(o.within.Microseconds()) / float64(o.permits))
	}
	after := micros(int64(min(due, maxPermits)))
	if o.rest > 0 {
		return add(after, o.rest)
	}
	return after + o.rest
}

func (o pauseForecast) wait(permits int64) (time.Duration, bool) {
	switch {
	case o.paused(): // then permits come free one after another
		return o.rest, permits == 1 || o.permits == 0
	case o.paces() && permits > o.Free():
		return max(time.Microsecond, o.until(permits)), true
	}
	return 0, true
}

func (o pauseForecast) reset(int64) time.Duration {
	if o.paused() || o.paces() {
		return o.until(o.permits)
	}
	return 0
}

func (o pauseForecast) Earliest(ahead, permits int64) time.Duration {
	if o.paused() {
		return o.until(ahead + permits)
	}
	after, _ := o.wait(ahead + permits)
	return after
}
