package rratelimiter

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// hint is what Redis last reported about a limiter. It makes calls cheaper, and no answer depends
// on it: the script verifies the rate and the interval. It also keeps when the permits of the
// limiter were last counted, which corrects drift between its value and its grants.
type hint struct {
	mu        sync.Mutex
	known     bool
	perClient bool
	rate      int64
	interval  int64  // milliseconds
	text      string // rate and interval, as the script compares them

	due     int64  // from then on the permits are counted; Unix milliseconds
	cursor  string // of a count that takes several calls
	claimed int64  // when a call left that counts, 0 if none did
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

// claimCount claims the count of the permits for a call that leaves now, if a count is due and no
// other call has claimed it. It returns the hint for the call, and the score up to which grants have
// expired. The hint is empty if the call begins a count; cursor is that of a count that continues.
func (h *hint) claimCount(now int64) (text string, limit int64, cursor string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		return "", 0, ""
	}
	limit = now - h.interval
	// A clock that was set back makes the count due as well.
	due := now >= h.due || h.due-now > max(1, h.interval)
	free := h.claimed == 0 || now >= h.claimed+min(claimLasts, h.interval) || now < h.claimed
	if !due || !free {
		return h.text, limit, ""
	}
	h.claimed = now
	if h.cursor == "" || now-h.due >= h.interval || now < h.due { // or the cursor is too old
		return "", 0, ""
	}
	return h.text, limit, h.cursor
}

// What a reply reports about the count, besides a cursor.
const (
	notCounted   = ""
	countDone    = "done"
	countDue     = "due"
	countRestart = "again"
)

// learn keeps what a reply reported to a call that left at now.
func (h *hint) learn(now, rate, interval int64, perClient bool, counted string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rate != h.rate || interval != h.interval {
		h.text = strconv.FormatInt(rate, 10) + " " + strconv.FormatInt(interval, 10)
	}
	h.known, h.perClient, h.rate, h.interval = true, perClient, rate, interval
	switch counted {
	case notCounted:
		return
	case countDone:
		h.cursor, h.due = "", now+interval-interval/countPart
	case countRestart:
		h.cursor, h.due = "", now+interval/retryPart
	case countDue:
		h.cursor, h.due = "", now
	default:
		h.cursor, h.due = counted, now
	}
	h.claimed = 0
}

// setPerClient records that a limiter is PER_CLIENT although the hint was OVERALL.
func (h *hint) setPerClient() {
	h.mu.Lock()
	h.perClient = true
	h.mu.Unlock()
}

func (h *hint) isPerClient() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.perClient
}

// countDrift counts the permits of the limiter if that is due, by a call that grants none. A
// limiter that is joined with others needs it, since their call does not count.
func (w *wire) countDrift(ctx context.Context) {
	if ctx.Err() != nil {
		return // otherwise it would claim the count for a call that is not made
	}
	b := new(engine.Batch)
	w.Arguments(b, w.client.engine.Now())
	if b.Args[hintArg] != "" && len(b.Args) <= countArg {
		return
	}
	// An error has no consequence: the call that follows meets it, too.
	_, _ = engine.Detach(ctx, func(ctx context.Context) (struct{}, error) {
		for range engine.MaxPages {
			message, err := w.eval(ctx, nil, acquireScript, w.namedKeys(b.AllKeys), b.Args)
			if err != nil {
				return struct{}{}, err
			}
			if again, err := w.Answer(b, message); err != nil || !again {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
}

// hints are those of a Client: two generations of at most maxHints limiters each. A limiter that
// was not opened for as long as it took to fill a generation loses its hint, unless a Limiter still
// holds it.
type hints struct {
	mu               sync.Mutex
	current, earlier map[string]*hint
}

const maxHints = 1 << 15

// of returns the hint of the limiter with a configuration key.
func (s *hints) of(key string) *hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current[key]
	if h != nil {
		return h
	}
	if h = s.earlier[key]; h == nil {
		h = new(hint)
	}
	if s.current == nil || len(s.current) >= maxHints {
		s.current, s.earlier = make(map[string]*hint), s.current
	}
	s.current[key] = h
	return h
}

// hint returns the hint of the limiter. A Limiter that is used for one call alone shares it with
// the others of its name.
func (w *wire) hint() *hint {
	if h := w.hinted.Load(); h != nil {
		return h
	}
	h := w.client.hints.of(w.keys[configKey])
	w.hinted.Store(h)
	return h
}

// millisOf returns the time of a call as Unix milliseconds: the process's own, if the server's
// clock dates the call.
func (w *wire) millisOf(now time.Time) int64 {
	if w.client.engine.ServerTime() {
		now = time.Now()
	}
	return now.UnixMilli()
}
