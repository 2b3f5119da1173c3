package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// processHeader has the number of the process that sent a request.
const processHeader = "X-Process"

const (
	served  = '.'
	refused = '4' // 429
	banned  = 'B'
)

// event is a request at the provider.
type event struct {
	at      time.Duration
	process string
	result  rune
}

// provider is a paid API. One of its requests is too much for it: it answers 429 with a Retry-After. It
// serves what was under way then. After that, each request before the time is over is refused, and the
// third of these bans the client for ever.
type provider struct {
	start time.Time

	mu      sync.Mutex
	events  []event
	until   time.Time // of the Retry-After
	strikes int
}

const (
	tooMuch    = 15 // the number of the request
	retryAfter = 2 * time.Second
	underWay   = 300 * time.Millisecond
	forgiven   = 2
)

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch p.decide(r.Header.Get(processHeader)) {
	case served:
		_, _ = fmt.Fprintln(w, "result") // the client may be gone
	case refused:
		w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		http.Error(w, "banned", http.StatusForbidden)
	}
}

func (p *provider) decide(process string) (result rune) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	defer func() { p.events = append(p.events, event{now.Sub(p.start), process, result}) }()
	switch begun := p.until.Add(-retryAfter); {
	case p.strikes > forgiven:
		return banned
	case len(p.events)+1 == tooMuch:
		p.until = now.Add(retryAfter)
		return refused
	case now.Before(p.until) && now.After(begun.Add(underWay)):
		if p.strikes++; p.strikes > forgiven {
			return banned
		}
		return refused
	}
	return served
}

// seen returns the events so far.
func (p *provider) seen() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]event(nil), p.events...)
}

// count counts the events with a result.
func count(events []event, result rune) (n int) {
	for _, e := range events {
		if e.result == result {
			n++
		}
	}
	return n
}
