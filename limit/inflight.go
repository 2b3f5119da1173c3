package limit

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// InFlight grants at most Permits that are held at once: it limits how many calls run, not how many
// begin. A permit is held from its grant until it is returned. [Taken.Settle] returns all permits of
// its grant, whatever the final cost is. Middleware, transports and interceptors return those of a
// request at its end. A permit that is not returned returns by itself, Lease after
// its grant, so a program that ends keeps it no longer. Choose a Lease above the longest call: a call
// that outlives it no longer counts, and returns nothing of others.
//
// Callers that wait get a permit that their Client returns at once, and one that another Client
// returns within 100 ms. Each Client with waiters makes ten calls a second for that, and the one of several that
// got least up to fifty: beside others that wait, a wait of less than 100 ms may end without a call. A wait lasts until its deadline, since
// nothing is known of when permits return. So RetryAfter of a Decision is a guess: at most a second, less
// if a lease ends earlier. ResetAfter is the time until the last lease ends. Leases and the denial cache
// of the Client never answer for an InFlight.
//
// Release returns the permits whose lease ends first, of at most 2,048 grants. Remaining may be too small
// while more than 256 leases have ended that were not returned; what is granted is exact. If Redis loses its
// data, the permits that are held then count no longer.
type InFlight struct {
	Permits int64         // 1 to 1,000,000
	Lease   time.Duration // whole milliseconds
}

const mostInFlight = 1_000_000

var _ = policy.Register(policy.Kind[InFlight]{
	Name: "in_flight",
	Describe: func(p InFlight) policy.Description {
		return policy.Description{
			Key: "inflight", Type: "zset", Label: "in-flight", Quota: p.Permits, Refill: policy.Held,
			Local: policy.Local{Permits: p.Permits, Returns: p.Permits, Interval: p.Lease, Strict: true},
		}
	},
	NoRate: true,
	Fields: []policy.Field{
		{Name: "in_flight", Type: policy.Count, Min: 1, Max: mostInFlight, Want: "a whole number, 1 to 1000000"},
		{Name: "lease", Type: policy.Duration},
	},
	New: func(r policy.Rate) InFlight {
		return InFlight{policy.Value[int64](r, "in_flight"), policy.Value[time.Duration](r, "lease")}
	},
	Words:   []string{"inflight"},
	FromKey: func(_, _ string) InFlight { return InFlight{1, time.Millisecond} },
	Read:    func(_ InFlight, c policy.Content) (policy.State, bool) { return readInFlight(c) },
})

// parseHeld parses a grant, "<epoch> <end> <count>", and returns the millisecond of the end.
func parseHeld(text string) (end, permits int64, ok bool) {
	n, ok := numbersAfterEpoch(text, 2)
	return n[0] / 1000, n[1], ok
}

// readInFlight reads the grants whose lease has not ended.
func readInFlight(c policy.Content) (s policy.State, ok bool) {
	words := strings.Fields(c.Text)
	if len(words) != 7 {
		return s, false
	}
	scores := map[string]string{words[0]: strings.TrimPrefix(words[1], "-"), words[2]: strings.TrimPrefix(words[3], "-")}
	n, ok := numbersOf(scores["clock"], scores["held"])
	last, _, isGrant := parseHeld(strings.Join(words[4:], " "))
	if !ok || !isGrant {
		return s, false
	}
	now := c.Now.UnixMilli()
	at := max(now, (n[0]-1)/1000)
	if last <= at {
		return s, true
	}
	s.Taken, s.Ends = n[1], last-now
	for text := range c.Entries {
		end, permits, ok := parseHeld(text)
		switch {
		case !ok:
			return s, false
		case end <= at:
			s.Taken -= permits
			continue
		}
		s.Returns = append(s.Returns, policy.Return{AfterMS: end - now, Permits: permits})
		if len(s.Returns) == policy.MaxReturns {
			break
		}
	}
	return s, true
}

func (p InFlight) validate() error {
	if p.Permits < 1 || p.Permits > mostInFlight {
		return invalid("InFlight.Permits is %d, want 1 to 1000000", p.Permits)
	}
	return checkInterval("InFlight", "Lease", p.Lease)
}

func (p InFlight) arguments(args []string, _ time.Time) []string {
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(p.Lease.Milliseconds(), 10))
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

// isHeld reports whether a member holds its permits until they are returned.
func isHeld(m member) bool { return m.described.Refill == policy.Held }
