package limit

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Penalty denies everything for a time to a name that was denied too often, in all processes that share
// the limiter. Give it beside the policies whose denials count:
//
//	limit.NewKeyed(client, "login", limit.SlidingWindow{Permits: 5, Interval: time.Minute},
//		limit.Penalty{Denials: 20, Within: time.Minute, For: 10 * time.Minute})
//
// A count of denials begins with the first one and ends Within later. The denial that reaches Denials begins
// the penalty: its RetryAfter is For, and that of a request during the penalty is the rest. Such a request
// does not prolong the penalty, unless Renew is set. A grant writes nothing for a Penalty, a denial one number.
//
// A request for more permits than can ever be granted is not counted, nor is a call of Acquire or
// TryAcquireWithin, which waits. A denial by a [Pause] is not counted. In a [Join] a Penalty counts the
// denials by the policies of its own name or, if it has none beside it, those by all.
//
// Only Redis counts: a limiter with a Penalty has no prefetches and no denial cache. Reset and a Pause of 0 end
// the penalty and the count. Like a window, both end by the clock of Redis.
//
// A Penalty has no permits: its own Decision has a Limit of 0.
type Penalty struct {
	Denials int64         // that begin the penalty, 1 to 2^53
	Within  time.Duration // in which they are counted, whole milliseconds
	For     time.Duration // the length of the penalty, whole milliseconds
	Renew   bool          // a request during the penalty begins it again; a longer rest stays
}

var _ = policy.Register(policy.Kind[Penalty]{
	Name: "penalty",
	Describe: func(Penalty) policy.Description {
		return policy.Description{
			Key: "penalty", Label: "penalty", Most: maxPermits, Refill: policy.Pausing,
			Local: policy.Local{Permits: maxPermits, Returns: maxPermits, Interval: time.Second},
		}
	},
	NoRate: true,
	Nested: true,
	Fields: []policy.Field{
		{Name: "denials", Type: policy.Count, Min: 1, Max: maxPermits, Want: "a whole number of denials, 1 to 2^53"},
		{Name: "within", Type: policy.Duration},
		{Name: "for", Type: policy.Duration},
		{Name: "renew", Type: policy.Bool},
	},
	New: func(r policy.Rate) Penalty {
		return Penalty{policy.Value[int64](r, "denials"), policy.Value[time.Duration](r, "within"),
			policy.Value[time.Duration](r, "for"), policy.Value[bool](r, "renew")}
	},
	Words:   []string{"penalty"},
	FromKey: func(_, _ string) Penalty { return Penalty{1, time.Millisecond, time.Millisecond, false} },
	Read: func(_ Penalty, c policy.Content) (s policy.State, ok bool) {
		n, ok := numbersOf(c.Text)
		if ok && n[0] == 0 {
			s.Busy = max(1, c.TTL)
		}
		return s, ok
	},
})

func (p Penalty) validate() error {
	return cmp.Or(checkPermits("Penalty", "Denials", p.Denials), checkInterval("Penalty", "Within", p.Within),
		checkInterval("Penalty", "For", p.For))
}

func (p Penalty) arguments(args []string, _ time.Time) []string {
	renew := ""
	if p.Renew {
		renew = "1"
	}
	return append(args, strconv.FormatInt(p.Denials, 10), strconv.FormatInt(p.Within.Milliseconds(), 10),
		strconv.FormatInt(p.For.Milliseconds(), 10), renew)
}

func (p Penalty) forecast(r *redisx.Reply) forecast {
	return penaltyForecast{rest: micros(r.Number())}
}

// penaltyForecast is a penalty, or none.
type penaltyForecast struct {
	usage
	rest time.Duration // of the penalty; 0 for none
}

func (o penaltyForecast) Free() int64 {
	if o.rest > 0 {
		return 0
	}
	return maxPermits
}

func (o penaltyForecast) wait(int64) (time.Duration, bool) { return o.rest, true }

func (o penaltyForecast) reset(int64) time.Duration { return o.rest }

func (o penaltyForecast) Earliest(int64, int64) time.Duration { return o.rest }

func isPenalty(m member) bool {
	_, ok := m.policy.(Penalty)
	return ok
}

// beside returns the free permits of the members whose denials a Penalty counts, in a script.
func beside(members []member, penalty int) string {
	counted := func(own bool) (free []string) {
		for i, m := range members {
			switch {
			case m.described.Refill == policy.Pausing || own && m.name != members[penalty].name:
			case strings.Contains(sections[m.described.Lua]["credit"], "credit@"): // below 0 if it grants nothing
				free = append(free, "credit"+strconv.Itoa(i+1)+" + least")
			default:
				free = append(free, "free"+strconv.Itoa(i+1))
			}
		}
		return free
	}
	for _, own := range []bool{true, false} {
		if free := counted(own); len(free) > 0 {
			return strings.Join(free, ", ")
		}
	}
	return strconv.FormatInt(maxPermits, 10)
}
