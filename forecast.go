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
	now      int64 // of the call, Unix milliseconds
	rate     int64
	interval time.Duration
	reset    time.Duration // until all permits are free, if the reply has it
	free     int64         // below 0 if more than the rate is taken
	returns  []returning   // when permits return, the earliest first; at most a page
	leased   time.Duration // when the first leased ones return; 0 without leases
	expires  time.Duration // KeepAlive, 0 for none
	lag      time.Duration // of waiters: see turns
}

// leaseGrace is how long after the end of a lease its unused permits are expected, as in
// internal/include/waits.lua. Most return earlier.
const leaseGrace = 50 * time.Millisecond

// returning is the number of permits that return within a time, earlier ones included.
type returning struct {
	after   time.Duration
	permits int64
}

// add appends a pair of the script: milliseconds, and the permits that return then, below 0 for
// those of a lease.
func (f *forecast) add(after, permits int64) {
	if permits < 0 {
		permits = -permits
		if f.leased == 0 {
			f.leased = millis(after)
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

// turns has the waiters of a Client and those of other programs take turns. Permits return in a burst, and
// the program that asks first takes all of them. So a Client that has more than half of the permits asks
// late, and otherwise on time. A late waiter delays all later permits, so a Client is rarely late while no
// other program takes what it waits for.
type turns struct {
	mu     sync.Mutex
	got    float64 // the permits of waiters in about the last interval: each counts less as it ages
	at     int64   // the time of the last reply, Unix milliseconds
	next   int64   // when the first waiter could be served, by that reply; 0 for none
	beaten int64   // when another program had taken those permits
	waits  int64   // for permits
}

// A Client that was beaten can be late after each wait for turnsFor intervals. Later, lateness takes at most the
// part 1/turnsCost of the time.
const (
	turnsFor  = 8
	turnsCost = 40
)

// lag returns the lag of waiters after a reply that granted permits, at most jitter. The next waiter could
// be served after wait.
func (s *turns) lag(f *forecast, granted int64, wait, jitter time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := max(f.interval.Milliseconds(), 1)
	s.beaten = min(s.beaten, f.now) // the clock may be set back
	if s.next > 0 && f.now >= s.next {
		s.waits++
		if granted == 0 {
			s.beaten = f.now
		}
	}
	age := float64(max(0, f.now-s.at)) / float64(interval)
	s.got = s.got*math.Exp(-age) + float64(granted)
	if s.at, s.next = f.now, 0; wait > 0 {
		s.next = f.now + wait.Milliseconds()
	}
	jitter = min(jitter, f.interval/5)
	every := turnsCost*jitter.Milliseconds()/interval + 1
	if f.now-s.beaten >= turnsFor*interval && s.waits%every != 0 {
		return 0
	}
	share := s.got / float64(max(f.rate, 1))
	return time.Duration(float64(jitter) * min(1, max(0, 2*share-1)))
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
	if grace := min(leaseGrace, f.interval); f.leased > 0 && f.leased-grace < after {
		after = max(0, max(after, f.leased)-grace)
	}
	if f.interval > 0 && rounds > int64((engine.Never-after)/f.interval) {
		return engine.Never
	}
	return after + time.Duration(rounds)*f.interval
}
