package rratelimiter

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// schedule plans when the permits of a limiter are counted, which corrects drift between its value and its grants. It
// goes by the clock of the process.
type schedule struct {
	mu       sync.Mutex
	began    time.Time // the last count
	early    time.Time // when the next one may begin
	due      time.Time // when it is due
	counting bool
	hurried  bool // the next count is due at early
}

// A count is due half an interval after the one before, and when the server has had a hundred times as
// long for other calls. It takes the server less than recountCost, and a microsecond for each grant: there
// are at most as many as the rate has permits.
const (
	recountPart  = 2
	recountShare = 100
	recountCost  = 50 * time.Microsecond
	recountEach  = time.Microsecond

	recountRetry = time.Second            // after a count that failed
	recountAsk   = 200 * time.Millisecond // after a count of another Client, at the least
	recountAlone = 200                    // times the least pause, from which on Clients count by themselves
)

// recountPauses returns the time from the beginning of a count of grants until the next one is due, and the
// least that it may be. Interval is in milliseconds.
func recountPauses(rate, interval int64) (pause, least time.Duration) {
	least = recountShare * (recountCost + recountEach*time.Duration(min(rate, inside.MostCounted)))
	return max(millis(interval)/recountPart, least), least
}

// begin reports whether a count is to begin now: it is due, and no other one runs.
func (s *schedule) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due
	if s.hurried {
		due = s.early
	}
	if s.counting || now.Before(due) {
		return false
	}
	s.counting, s.hurried, s.began = true, false, now
	return true
}

// end ends a count.
func (s *schedule) end(pause, least time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting = false
	s.early, s.due = s.began.Add(least), s.began.Add(pause)
}

// skip records that a call has counted.
func (s *schedule) skip(now time.Time, pause, least time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried, s.began = false, now
	s.early, s.due = now.Add(least), now.Add(pause)
}

// hurry makes the next count due as soon as it may begin, also if one runs.
func (s *schedule) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = true
}

// learn keeps what a reply has reported. If the rate has changed, a count is due. If the call has recounted the value,
// none is.
func (p *protocol) learn(now time.Time, rate, interval int64, perClient, recounted bool) {
	h := p.hint()
	changed := h.setRate(rate, interval, perClient)
	switch {
	case recounted:
		pause, least := recountPauses(rate, interval)
		h.recounts.skip(now, pause, least)
	case changed:
		h.recounts.hurry()
	}
}

// recountIfDue counts the permits of the limiter in the background, if that is due after a reply. text is the time as an
// argument of the script. Only Flush waits for the count.
func (p *protocol) recountIfDue(replied time.Time, text string) {
	h := p.hint()
	if !h.recounts.begin(replied) {
		return
	}
	done := make(chan struct{})
	p.client.recounts.Store(done, nil)
	go func() {
		pause, least := recountRetry, recountRetry
		defer func() { // also if a hook of the Redis client ends the goroutine
			h.recounts.end(pause, least)
			p.client.recounts.Delete(done)
			close(done)
		}()
		if after, atLeast, err := p.recount(context.Background(), text, true); err == nil {
			pause, least = after, atLeast
		}
	}()
}

// mark returns the key by which the Clients of the limiter share their counts.
func (p *protocol) mark() string { return statePrefix(p.keys[configKey]) + "counted" }

// validArg is the index of the time for which a mark is valid in the arguments of recount.lua.
const validArg = 1

// recount counts the permits of the limiter, which corrects drift. It returns the time until the next count is due,
// and the least that it may be. With shared, it counts only if no count of another Client is enough. Clients with
// PER_CLIENT state, or whose counts are cheap, count by themselves.
func (p *protocol) recount(ctx context.Context, now string, shared bool) (pause, least time.Duration, err error) {
	args, h := []string{now}, p.hint()
	seen := h.rate.Load()
	pause, least = recountPauses(seen.rate, seen.interval)
	if shared && seen.text != "" && !seen.perClient && pause < recountAlone*least {
		args = append(args, strconv.FormatInt(pause.Milliseconds(), 10))
	}
	reply, err := p.pages(ctx, recountScript, args)
	if err != nil {
		return 0, 0, err
	}
	rate, interval, left := reply.Number(), reply.Number(), millis(reply.Number())
	if !reply.Ended() {
		return 0, 0, p.unexpected(&reply)
	}
	h.setRate(rate, interval, h.rate.Load().perClient)
	if left > 0 {
		return max(left, recountAsk), recountAsk, nil
	}
	pause, least = recountPauses(rate, interval)
	return pause, least, nil
}
