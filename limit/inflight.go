package limit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// InFlight grants at most Permits that are held at once: it limits how many calls run, not how many
// begin. A request holds its permits, its place, until the place is returned.
//
// # Returns
//
// Only its holder returns a place: [Taken.Settle], whatever the final cost is, and middleware, transports and
// interceptors at the end of a request. Reset returns all. Release and Charge of a limiter leave its InFlight as it is,
// and the methods TryAcquire, Acquire and Take hold permits that no call returns.
//
// To return a place twice changes nothing of others. The Client repeats a return that fails, at most a second apart,
// until Redis has answered or the lease has ended. [rratelimiter.Client.Flush] waits for returns that are under way.
//
// # Leases
//
// A place that is not returned returns by itself, Lease after its grant, so a program that ends keeps it no longer.
// Without Renew, choose a Lease above the longest call: a call that outlives it no longer counts. With Renew, the
// Client renews the leases of its places, each third of a Lease, until they are returned. So a call may take any
// time, and Lease is how long the places of a dead process stay. A place whose lease ends before it could be
// renewed is lost: it counts no longer and is not renewed again. [Taken.Lost] reports that, and OnSettleError of
// the middleware.
//
// Remaining may be too small while more than 256 leases have ended that were not returned; what is granted is exact.
// If Redis loses its data, the permits that are held then count no longer.
//
// # Waiting
//
// Callers that wait get a permit that their Client returns at once, and one that another Client
// returns within 100 ms. Each Client with waiters makes ten calls a second for that, and the one of several that
// got least up to fifty. Beside others that wait, a wait of less than 100 ms may end without a call. A wait lasts
// until its deadline, since nothing is known of when permits return. It ends before that only if another call
// would end too late. So RetryAfter of a Decision is a guess: at most a second, less if a lease ends earlier.
// ResetAfter is the time until the last lease ends. Prefetches and the denial cache of the Client never answer for an
// InFlight.
type InFlight struct {
	Permits int64         // 1 to 1,000,000
	Lease   time.Duration // whole milliseconds; with Renew at least 100 ms
	Renew   bool          // the Client renews the leases of its places
}

const (
	mostInFlight = 1_000_000
	leastRenewed = 100 * time.Millisecond
)

var _ = policy.Register(policy.Kind[InFlight]{
	Name: "in_flight",
	Describe: func(p InFlight) policy.Description {
		return policy.Description{
			Key: "inflight", Type: "zset", Label: "in-flight", Quota: p.Permits, Refill: policy.Held, Dated: true,
			Local: policy.Local{Permits: p.Permits, Returns: p.Permits, Interval: p.Lease, Strict: true},
		}
	},
	NoRate: true,
	Fields: []policy.Field{
		{Name: "in_flight", Type: policy.Count, Min: 1, Max: mostInFlight, Want: "a whole number, 1 to 1000000"},
		{Name: "lease", Type: policy.Duration},
		{Name: "renew", Type: policy.Bool},
	},
	New: func(r policy.Rate) InFlight {
		return InFlight{policy.Value[int64](r, "in_flight"), policy.Value[time.Duration](r, "lease"),
			policy.Value[bool](r, "renew")}
	},
	Words:   []string{"inflight"},
	FromKey: func(_, _ string) InFlight { return InFlight{1, time.Millisecond, false} },
	Read:    func(_ InFlight, c policy.Content) (policy.State, bool) { return readInFlight(c) },
})

// readInFlight reads the places whose lease has not ended.
func readInFlight(c policy.Content) (s policy.State, ok bool) {
	words := strings.Fields(c.Text)
	if len(words) != 9 {
		return s, false
	}
	scores := map[string]string{words[0]: strings.TrimPrefix(words[1], "-"), words[2]: strings.TrimPrefix(words[3], "-")}
	n, ok := numbersOf(scores["clock"], scores["held"])
	last, isPlace := parsePlace(strings.Join(words[4:], " "))
	if !ok || !isPlace {
		return s, false
	}
	now := c.Now.UnixMilli()
	at := max(now, n[0]-1)
	if last.end <= at {
		return s, true
	}
	s.Taken, s.Ends = n[1], last.end-now
	for text := range c.Entries {
		p, ok := parsePlace(text)
		switch {
		case !ok:
			return s, false
		case p.end <= at:
			s.Taken -= p.permits
			continue
		}
		if len(s.Returns) < policy.MaxReturns {
			s.Returns = append(s.Returns, policy.Return{AfterMS: p.end - now, Permits: p.permits})
		}
		s.Places = append(s.Places, policy.Place{AgeMS: max(0, now-p.begin), EndsMS: p.end - now, Permits: p.permits,
			Renewed: p.end-p.lease-p.begin > p.lease/4})
		if len(s.Places) == policy.MaxPlaces {
			break
		}
	}
	slices.SortStableFunc(s.Places, func(a, b policy.Place) int { return cmp.Compare(b.AgeMS, a.AgeMS) })
	return s, true
}

func (p InFlight) validate() error {
	if p.Permits < 1 || p.Permits > mostInFlight {
		return invalid("InFlight.Permits is %d, want 1 to 1000000", p.Permits)
	}
	if p.Renew && p.Lease < leastRenewed {
		return invalid("InFlight.Lease is %v with Renew, want at least %v", p.Lease, leastRenewed)
	}
	return checkInterval("InFlight", "Lease", p.Lease)
}

// arguments appends a new ID each time.
func (p InFlight) arguments(args []string, now time.Time) []string {
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(p.Lease.Milliseconds(), 10), newPlaceID(now))
}

func (p InFlight) forecast(r *redisx.Reply) forecast {
	return heldForecast{usage{p.Permits, r.Number()}, micros(r.Number()), min(longestGuess, micros(r.Number()))}
}

const (
	longestGuess = time.Second            // of RetryAfter
	askForHeld   = 100 * time.Millisecond // how often waiters ask
)

// heldForecast is permits that are held until they are returned.
type heldForecast struct {
	usage
	end   time.Duration // from now until the last lease ends
	guess time.Duration // when the next permit returns
}

// wait returns a guess, or 0 if the permits are free. Neither is known: another Client may return or
// take some at any time.
func (o heldForecast) wait(permits int64) (after time.Duration, known bool) {
	if permits <= o.Free() {
		return 0, false
	}
	return o.guess, false
}

func (o heldForecast) reset(int64) time.Duration { return o.end }

// Earliest returns 0: permits may return at any time.
func (o heldForecast) Earliest(int64, int64) time.Duration { return 0 }

func (o heldForecast) forWaiters(share bool) forecast {
	if !share { // else the script has set it
		o.guess = askForHeld
	}
	return o
}
