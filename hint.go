package rratelimiter

import (
	"strconv"
	"sync"
)

// hint is what a Client remembers of a limiter between calls.
type hint struct {
	rate     rateHint
	recounts schedule
	turns    turns
}

// rateHint is the rate that Redis last reported. It makes calls cheaper, and no answer depends on it:
// the script verifies it.
type rateHint struct {
	mu        sync.Mutex
	perClient bool
	rate      int64
	interval  int64  // milliseconds
	text      string // rate and interval, as the script compares them
}

// set keeps what a reply reported. It reports whether that is news.
func (s *rateHint) set(rate, interval int64, perClient bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.text == "" || rate != s.rate || interval != s.interval
	if changed {
		s.text = strconv.FormatInt(rate, 10) + " " + strconv.FormatInt(interval, 10)
	}
	s.perClient, s.rate, s.interval = perClient, rate, interval
	return changed
}

// get returns the text for the script, the rate, the interval in milliseconds, and whether the limiter is
// PER_CLIENT; or "" if no rate was seen.
func (s *rateHint) get() (text string, rate, interval int64, perClient bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.rate, s.interval, s.perClient
}

// setPerClient records that a limiter is PER_CLIENT although it was last seen OVERALL.
func (s *rateHint) setPerClient() {
	s.mu.Lock()
	s.perClient = true
	s.mu.Unlock()
}

func (s *rateHint) isPerClient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.perClient
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
		h = &hint{turns: turns{others: 0.5}} // another program may wait
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
	h := p.client.hints.of(p.keys[configKey])
	p.hinted.Store(h)
	return h
}
