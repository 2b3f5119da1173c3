package rratelimiter

import (
	"context"
	"sync"
	"time"
)

// schedule says when the permits of a limiter are counted, which corrects drift between its value and
// its grants. A call of the acquire script counts a small set itself. For a large one, recount.lua
// runs in the background. Times are Unix milliseconds.
type schedule struct {
	mu       sync.Mutex
	due      int64 // of the next count
	claimed  int64 // when a call left that counts, 0 if none did
	counting bool  // recount.lua runs
}

const (
	// A count is due once interval/countPart is left: a large set takes several calls, and is counted
	// twice.
	countPart = 2
	// A count that was disturbed starts again after interval/retryPart.
	retryPart = 16
	// After so many milliseconds, or an interval, another call counts in the place of one that has
	// not been answered.
	claimLasts = 1000
)

// claim reports whether a call that leaves now is to count: a count is due, and no other call has
// claimed it.
func (s *schedule) claim(now, interval int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that was set back makes the count due as well.
	due := now >= s.due || s.due-now > max(1, interval)
	free := s.claimed == 0 || now >= s.claimed+min(claimLasts, interval) || now < s.claimed
	if !due || !free || s.counting {
		return false
	}
	s.claimed = now
	return true
}

// What a reply of the acquire script reports about the count.
const (
	notCounted = ""
	countDone  = "done"
	countDue   = "due"   // the next call is to count
	countLarge = "large" // recount.lua is to count
)

// learn keeps what a reply reported to a call that left at now. It reports whether recount.lua is to
// run.
func (s *schedule) learn(now, interval int64, counted string) (recount bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch counted {
	case notCounted:
		return false
	case countDone:
		s.due = now + interval - interval/countPart
	case countDue:
		s.due = now
	case countLarge:
		recount = !s.counting
		s.counting = true
	}
	s.claimed = 0
	return recount
}

// end ends a run of recount.lua that began at now. The next one is soon, unless this one has settled
// the drift.
func (s *schedule) end(now, interval int64, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting, s.claimed, s.due = false, 0, now+interval/retryPart
	if settled {
		s.due = now + interval - interval/countPart
	}
}

// learn keeps what a reply reported to a call at now.
func (w *wire) learn(now time.Time, rate, interval int64, perClient bool, counted string) {
	h := w.hint()
	h.seen.set(rate, interval, perClient)
	if h.counts.learn(w.millisOf(now), interval, counted) { // as Arguments took the time
		go w.recount(now)
	}
}

// countDrift counts the permits of the limiter in the background, if that is due. A limiter that is
// joined with others needs it, since their call does not count.
func (w *wire) countDrift() {
	h := w.hint()
	_, interval := h.seen.get()
	now := w.client.engine.Now()
	millis := w.millisOf(now)
	if h.counts.claim(millis, interval) && h.counts.learn(millis, interval, countLarge) {
		go w.recount(now)
	}
}

// recount runs recount.lua to its end. An error leaves the count to the next call. The time is that of
// the call that started it, so that a clock which panics does so in a call.
func (w *wire) recount(now time.Time) {
	h, begun, settled := w.hint(), w.millisOf(now), false
	defer func() { // also if a hook of the Redis client ends the goroutine
		_, interval := h.seen.get()
		h.counts.end(begun, interval, settled)
	}()
	reply, err := w.pages(context.Background(), recountScript, []string{w.client.engine.Millis(now)})
	result, rate, interval := reply.Number(), reply.Number(), reply.Number()
	if err == nil && reply.Ended() {
		h.seen.set(rate, interval, h.seen.isPerClient())
		settled = result == 1
	}
}

// recountNow runs recount.lua for a caller.
func (w *wire) recountNow(ctx context.Context) error {
	_, err := w.pages(ctx, recountScript, []string{w.client.engine.Millis(w.client.engine.Now())})
	return err
}

// millisOf returns the time of a call as Unix milliseconds: the process's own, if the server's
// clock dates the call.
func (w *wire) millisOf(now time.Time) int64 {
	if w.client.engine.ServerTime() {
		now = time.Now()
	}
	return now.UnixMilli()
}
