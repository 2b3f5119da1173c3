package rratelimiter

import (
	"math"
	"sort"
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
	reset      time.Duration // until all permits are free, if the reply has it
	free       int64         // below 0 if more than the rate is taken
	returns    []returning   // when permits return, the earliest first; at most a page
	prefetched time.Duration // when the first prefetched ones return; 0 without prefetches
	expires    time.Duration // KeepAlive, 0 for none
	lag        time.Duration // of waiters: see turns
}

// prefetchGrace is how long after the end of a prefetch its unused permits are expected, as in
// internal/include/waits.lua. Most return earlier.
const prefetchGrace = 50 * time.Millisecond

// returning is the number of permits that return within a time, earlier ones included.
type returning struct {
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
	f.returns = append(f.returns, returning{millis(after), permits})
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
func (f *forecast) Granted(later int64) engine.Answer {
	return engine.Answer{Allowed: true, Limit: f.rate, Remaining: max(0, f.free+later), ResetAfter: f.reset}
}

// GrantedParts returns nil: a rate has no parts.
func (f *forecast) GrantedParts(int64) []engine.Answer { return nil }

// Denied returns the answer to a request for more permits than are free.
func (f *forecast) Denied(permits int64) (engine.Answer, bool) {
	after, known := f.after(permits)
	return engine.Answer{Limit: f.rate, Remaining: max(0, f.free), RetryAfter: after, ResetAfter: f.reset}, known
}

// Parts returns nil: a rate has no parts.
func (f *forecast) Parts(int64) []engine.Answer { return nil }

// Lag returns how much later than at RetryAfter a waiter asks.
func (f *forecast) Lag(int64) time.Duration { return f.lag }

// turns has the waiters of Go and of other programs take turns. Permits return in a burst, and the program
// that asks first takes all of them. So all Clients are late in the same intervals, the more often the more
// of the permits other programs take then. A late waiter delays all later permits, so Clients are rarely late
// while no other program takes what they wait for.
type turns struct {
	mu     sync.Mutex
	got    float64 // the permits of waiters in about the last interval: each counts less as it ages
	at     int64   // the time of the last reply, Unix milliseconds
	next   int64   // when the first waiter could be served, by that reply: the same for all Clients; 0 for none
	late   int64   // how much later it asks, milliseconds
	beaten int64   // when another program had taken those permits
	others float64 // of the late waits, the part in which another program took the permits; recent ones count more
}

// While no other program waits, lateness costs at most the part 2/turnsCost of the time. Beside one, Clients
// are late in at most the part turnsPart of the intervals: in more, they would starve.
const (
	turnsCost = 80
	turnsPart = 0.38
	turnsFor  = 8 // intervals, in which a Client that was beaten leaves others half of the permits
)

// lag returns the lag of waiters after a reply that granted permits, at most jitter. The next waiter could
// be served after wait. A Client whose turn it is asks a little later the more it got, so that Clients whose
// clocks differ share the permits.
func (s *turns) lag(f *forecast, granted int64, wait, jitter time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := max(f.interval.Milliseconds(), 1)
	if s.next > 0 && s.late > 0 && f.now >= s.next+s.late {
		if f.grantedBetween(s.next, s.next+s.late*15/16) { // other Clients are as late as this one
			s.others += (1 - s.others) / 4
		} else {
			s.others -= s.others / 4
		}
	}
	s.beaten = min(s.beaten, f.now) // the clock may be set back
	if s.next > 0 && f.now >= s.next && granted == 0 {
		s.beaten = f.now
	}
	age := float64(max(0, f.now-s.at)) / float64(interval)
	s.got = s.got*math.Exp(-age) + float64(granted)
	if s.at, s.next, s.late = f.now, 0, 0; wait <= 0 {
		return 0
	}
	s.next = f.now + wait.Milliseconds()
	jitter = min(jitter, f.interval*2/3)
	rarely := float64(f.interval) / turnsCost / float64(max(jitter, 1))
	// The fractions of multiples of the golden ratio are evenly spread: no side has many intervals in a row.
	turn := float64(s.next/interval) * math.Phi
	if turn-math.Floor(turn) < min(turnsPart, max(rarely, 6*turnsPart*s.others*s.others)) {
		s.late = jitter.Milliseconds()
		return jitter
	}
	share := min(1, s.got/float64(max(f.rate, 1)))
	lag := share * float64(min(jitter, f.interval/turnsCost))
	if f.now-s.beaten < turnsFor*interval {
		lag = max(lag, (2*share-1)*float64(jitter))
	}
	return time.Duration(lag)
}

// grantedBetween reports whether a grant was dated from one time to another one.
func (f *forecast) grantedBetween(from, to int64) bool {
	for _, r := range f.returns {
		if at := f.now + (r.after - f.interval).Milliseconds(); at >= from && at <= to {
			return true
		}
	}
	return false
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
