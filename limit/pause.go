package limit

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Pause denies everything while a pause lasts, in all processes that share the limiter. A pause
// begins with [Limiter.Pause]: for instance when a provider answers 429 with Retry-After. Give it
// beside the policies of the quota, or in a limiter of its own that [Join] adds to others.
//
// When a pause ends, the other policies decide, and callers that waited take what these have free. A
// pause ends when its key expires, by the clock of Redis, to the millisecond.
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

// readPause reads the mark of a pause, whose key expires at its end.
func readPause(c policy.Content) (s policy.State, ok bool) {
	return policy.State{Busy: max(0, c.TTL)}, c.Text == "paused" && c.TTL >= 0
}

func (p Pause) validate() error { return checkInterval("Pause", "Most", p.Most) }

func (p Pause) arguments(args []string, _ time.Time) []string { return args }

func (p Pause) forecast(r *redisx.Reply) forecast { return pauseForecast{rest: micros(r.Number())} }

// pauseForecast is the rest of a pause: 0 if there is none.
type pauseForecast struct {
	usage
	rest time.Duration
}

func (o pauseForecast) Free() int64 {
	if o.rest > 0 {
		return 0
	}
	return maxPermits
}

func (o pauseForecast) wait(int64) (time.Duration, bool) { return o.rest, true }

func (o pauseForecast) reset(int64) time.Duration { return o.rest }

func (o pauseForecast) Earliest(_, _ int64) time.Duration { return o.rest }
