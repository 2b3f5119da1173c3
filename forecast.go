package rratelimiter

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// forecast is the state of a limiter in a reply of the acquire script, from which waiting times
// follow.
type forecast struct {
	now        int64 // of the call, Unix milliseconds
	rate       int64
	interval   time.Duration
	reset      time.Duration   // until all permits are free, if the reply has it
	free       int64           // below 0 if more than the rate is taken
	returns    []permitsReturn // when permits return, the earliest first; at most a page
	prefetched time.Duration   // when the first prefetched ones return; 0 without prefetches
	expires    time.Duration   // KeepAlive, 0 for none
	lag        time.Duration   // of waiters: see turns
	held       time.Duration   // what is free is held for waiters of other Clients for so long; 0: it is not
	rank       time.Duration   // how much later waiters ask, since other Clients come first
	turn       time.Duration   // the lag by the script for callers that wait
	beside     bool            // another program seems to wait
	shares     bool            // it is a reply of that script
	ahead      time.Duration   // the clock of the call to the server's, by that script
	all        int64           // permits that waiters of all Clients got, by that script; 0 of one alone, below if unknown
}

// prefetchGrace is how long after the end of a prefetch its unused permits are expected, as in
// internal/include/waits.lua. Most return earlier.
const prefetchGrace = 50 * time.Millisecond

// permitsReturn is the number of permits that return within a time, earlier ones included.
type permitsReturn struct {
	after   time.Duration
	permits int64
}

// add appends a pair of the script: milliseconds, and the permits that return then, below 0 for
// those of a prefetch.
func (f *forecast) add(after, permits int64) {
	if permits < 0 {
		permits = -permits
		if f.prefetched == 0 {
			f.prefetched = millis(after)
		}
	}
	if n := len(f.returns); n > 0 {
		permits += f.returns[n-1].permits
	}
	f.returns = append(f.returns, permitsReturn{millis(after), permits})
}

// Limit returns the rate.
func (f *forecast) Limit() int64 { return f.rate }

// Free returns the value.
func (f *forecast) Free() int64 { return f.free }

// after returns the time until permits are free. If not enough returns are known, it returns the
// last known one and false.
func (f *forecast) after(permits int64) (after time.Duration, known bool) {
	need := permits - f.free
	if need <= 0 || len(f.returns) == 0 {
		return 0, need <= 0
	}
	last := len(f.returns) - 1
	i := sort.Search(last, func(i int) bool { return f.returns[i].permits >= need })
	return f.returns[i].after, f.returns[i].permits >= need
}

// Granted returns the answer to a request that was granted, before later permits.
func (f *forecast) Granted(later int64) engine.Decision {
	return engine.Decision{Allowed: true, Limit: f.rate, Remaining: max(0, f.free+later), ResetAfter: f.reset}
}

// GrantedParts returns nil: a rate has no parts.
func (f *forecast) GrantedParts(int64) []engine.Decision { return nil }

// Denied returns the answer to a request for more permits than are free.
func (f *forecast) Denied(permits int64) (engine.Decision, bool) {
	after, known := f.after(permits)
	if f.held > 0 {
		after, known = max(after, f.held), false
	}
	return engine.Decision{Limit: f.rate, Remaining: max(0, f.free), RetryAfter: after, ResetAfter: f.reset}, known
}

// Parts returns nil: a rate has no parts.
func (f *forecast) Parts(int64) []engine.Decision { return nil }

// Lag returns how much later than at RetryAfter a waiter asks.
func (f *forecast) Lag(int64) time.Duration { return f.lag + f.rank }

// turns has the waiters of Go and of other programs take turns. Permits return in a burst, and the program
// that asks first takes all of them. So Clients are late in the same intervals, the more often the more
// of the permits other programs take then. A late waiter delays all later permits, so Clients are rarely late
// while no other program takes what they wait for.
type turns struct {
	mu     sync.Mutex
	got    float64       // the part of the rate that waiters got in about the last interval: it counts less as it ages
	part   float64       // the part that they got in about turnsMemory intervals
	at     int64         // the time of the last reply, Unix milliseconds
	next   int64         // when the first waiter could be served, by that reply: the same for all Clients; 0 for none
	late   int64         // how much later it asks, milliseconds
	beaten int64         // when another program had taken those permits
	all    int64         // the permits that the waiters of all Clients got, by the last reply; see forecast.all
	until  int64         // no waiter gets a permit before, as others have their turn; 0 for none
	ahead  time.Duration // to the server's clock: if the clock of others is the server's, these see permits return later
	others float64       // of the late waits, the part in which another program took the permits; recent ones count more
}

// While no other program waits, lateness costs at most the part 2/turnsCost of the time. Beside one, Clients
// are late in at most the part turnsPart of the intervals: in more, they would starve.
const (
	turnsCost   = 80
	turnsPart   = 0.38
	turnsSpread = 0.25 // of the lateness, which is random
	turnsMemory = 4    // intervals, in which Clients that got half of the permits leave a turn despite deadlines
	turnsFor    = 8    // intervals, in which Clients that were beaten leave others half of the permits
)

// lag returns the lag of waiters after a reply that granted permits, and whether it is fixed: no deadline ends it. The
// next waiter could be served after wait. A Client whose turn it is asks a little later after it was beaten, the
// more the Clients got: so those whose clock is ahead leave permits to others.
func (s *turns) lag(f *forecast, granted int64, wait, jitter time.Duration) (lag time.Duration, fixed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := max(f.interval.Milliseconds(), 1)
	got, known := granted, s.all == 0 && f.all == 0
	if s.all > 0 && f.all >= s.all+granted {
		got, known = f.all-s.all, true
	}
	s.all = f.all
	if s.next > 0 && s.late > 0 && f.now >= s.next+s.late {
		s.others -= s.others / 4
		if f.grantedSince(s.next) > got {
			s.others += 1. / 4
		}
	}
	s.beaten = min(s.beaten, f.now) // the clock may be set back
	if s.next > 0 && f.now >= s.next && got == 0 && known && f.held == 0 {
		s.beaten = f.now
	}
	age := float64(max(0, f.now-s.at)) / float64(interval)
	of := float64(got) / float64(max(f.rate, 1))
	s.got = s.got*math.Exp(-age) + of
	s.part = s.part*math.Exp(-age/turnsMemory) + of/turnsMemory
	if f.shares {
		s.ahead = min(max(0, f.ahead), jitter)
	}
	jitter, part, beside := s.jitter(f.interval, jitter)
	f.beside = beside
	if s.at = f.now; f.held > 0 && f.now < s.until {
		return 0, true
	}
	if s.next, s.late, s.until = 0, 0, 0; wait <= 0 {
		return 0, false
	}
	s.next = f.now + wait.Milliseconds()
	late := f.turn > 0
	if !f.shares {
		// The fractions of multiples of the golden ratio are evenly spread: no side has many intervals in a row.
		turn := float64(s.next/interval) * math.Phi
		late = turn-math.Floor(turn) < part
	}
	fixed = beside && 2*s.part > 1
	if late {
		if f.shares {
			jitter = f.turn
		}
		if s.late = jitter.Milliseconds(); fixed {
			s.until = s.next + s.late
		}
		return jitter, fixed
	}
	if f.now-s.beaten < turnsFor*interval {
		return time.Duration(max(0, 2*min(1, s.got)-1) * float64(jitter)), fixed
	}
	return 0, false
}

// jitter returns how late waiters ask in a turn, the part of the intervals that have one, and whether that is for
// another program that takes permits. The lateness is random: with one that is a multiple of the time in which
// permits return, the timers of others could always be later.
func (s *turns) jitter(interval, jitter time.Duration) (late time.Duration, part float64, beside bool) {
	jitter = min(jitter, interval*2/3)
	late = time.Duration(float64(jitter) * (1 - turnsSpread*rand.Float64()))
	rarely, often := float64(interval)/turnsCost/float64(max(jitter, 1)), 6*turnsPart*s.others*s.others
	return late + min(jitter, s.ahead), min(turnsPart, max(rarely, often)), often > rarely
}

// arguments returns arguments of the script for callers that wait. They are how late the next call may be, rest, the
// part of the intervals that have a turn, how late waiters ask then, and when the present turn ends.
func (s *turns) arguments(late time.Duration, rest int64, interval, jitter time.Duration, now int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	jitter, part, _ := s.jitter(interval, jitter)
	if now-s.beaten < turnsFor*interval.Milliseconds() {
		late += jitter
	}
	return []string{strconv.FormatInt(min(late.Milliseconds(), 2047), 10), strconv.FormatInt(rest, 10),
		strconv.FormatFloat(part, 'f', 4, 64), strconv.FormatInt(jitter.Milliseconds(), 10), strconv.FormatInt(s.until, 10)}
}

// grantedSince returns the permits of the grants that are dated from a time on.
func (f *forecast) grantedSince(at int64) (permits int64) {
	i := sort.Search(len(f.returns), func(i int) bool {
		return f.now+(f.returns[i].after-f.interval).Milliseconds() >= at
	})
	if i == len(f.returns) {
		return 0
	}
	permits = f.returns[len(f.returns)-1].permits
	if i > 0 {
		permits -= f.returns[i-1].permits
	}
	return permits
}

// Renew returns half of KeepAlive.
func (f *forecast) Renew() time.Duration {
	if f.expires == 0 {
		return engine.Never
	}
	return f.expires / 2
}

// Earliest returns the time until the last of the permits can be granted. Permits return one after
// another. If more than the rate is wanted, they return again an interval after they were granted
// again.
func (f *forecast) Earliest(ahead, permits int64) time.Duration {
	wanted := ahead + permits
	if f.rate <= 0 { // another program has set it
		return engine.Never
	}
	rounds := (wanted - 1) / f.rate
	after, _ := f.after(wanted - rounds*f.rate)
	if grace := min(prefetchGrace, f.interval); f.prefetched > 0 && f.prefetched-grace < after {
		after = max(0, max(after, f.prefetched)-grace)
	}
	if f.interval > 0 && rounds > int64((engine.Never-after)/f.interval) {
		return engine.Never
	}
	return after + time.Duration(rounds)*f.interval
}
