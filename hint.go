package rratelimiter

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// hint is what a Client remembers of a limiter between calls.
type hint struct {
	rate     atomic.Pointer[seenRate] // never nil
	recounts schedule
	turns    turns
}

// seenRate is the rate that Redis last reported. It makes calls cheaper, and no answer depends on it:
// the script verifies it.
type seenRate struct {
	text      string // rate and interval, as the script compares them; "" if no rate was seen
	rate      int64
	interval  int64 // milliseconds
	perClient bool
}

// setRate keeps what a reply reported. It reports whether that is news.
func (h *hint) setRate(rate, interval int64, perClient bool) (changed bool) {
	before := h.rate.Load()
	changed = before.text == "" || rate != before.rate || interval != before.interval
	if changed || perClient != before.perClient {
		text := strconv.FormatInt(rate, 10) + " " + strconv.FormatInt(interval, 10)
		h.rate.Store(&seenRate{text, rate, interval, perClient})
	}
	return changed
}

// setPerClient records that a limiter is PER_CLIENT although it was last seen OVERALL.
func (h *hint) setPerClient() {
	seen := *h.rate.Load()
	seen.perClient = true
	h.rate.Store(&seen)
}

// hints are those of a Client: two generations of at most maxHints limiters each. A limiter that
// was not opened for as long as it took to fill a generation loses its hint, unless a Limiter still
// holds it.
type hints struct {
	mu               sync.Mutex
	current, earlier map[string]*hint
}

const maxHints = 1 << 15

// hintOf returns the hint of the limiter with a configuration key.
func (s *hints) hintOf(key string) *hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current[key]
	if h != nil {
		return h
	}
	if h = s.earlier[key]; h == nil {
		h = &hint{turns: turns{others: 0.5}} // another program may wait
		h.rate.Store(new(seenRate))
	}
	if s.current == nil || len(s.current) >= maxHints {
		s.current, s.earlier = make(map[string]*hint), s.current
	}
	s.current[key] = h
	return h
}

// hint returns the hint of the limiter. A Limiter that is used for one call alone shares it with
// the others of its name.
func (p *protocol) hint() *hint {
	if h := p.hinted.Load(); h != nil {
		return h
	}
	h := p.client.hints.hintOf(p.keys[configKey])
	p.hinted.Store(h)
	return h
}
