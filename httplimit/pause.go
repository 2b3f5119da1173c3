package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	mostPauses   = 1 << 16
	longestPause = time.Hour
)

// pauses is what servers have asked for by Retry-After.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
	clean time.Time // when to look for those that are over
}

// add pauses a name, or prolongs its pause. A limiter without a name cannot be paused.
func (p *pauses) add(name string, d time.Duration) {
	if name == "" {
		return
	}
	now := time.Now()
	until := now.Add(min(d, longestPause))
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.After(p.clean) {
		p.clean = now.Add(time.Minute)
		for name, until := range p.until {
			if !until.After(now) {
				delete(p.until, name)
			}
		}
	}
	before, ok := p.until[name]
	if !ok && len(p.until) >= mostPauses || until.Before(before) {
		return
	}
	if p.until == nil {
		p.until = make(map[string]time.Time)
	}
	p.until[name] = until
}

// left is how long a name is still paused.
func (p *pauses) left(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[name]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(p.until, name)
	}
	return max(0, left)
}

// retryOf is how long a response wants nothing more to be sent.
func retryOf(resp *http.Response, now time.Time) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		after, err := strconv.ParseInt(text, 10, 64)
		if err != nil || after > int64(longestPause/time.Second) {
			return longestPause, true
		}
		return time.Duration(after) * time.Second, after > 0
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	// A date is by the clock of the server, which has told its time.
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	return at.Sub(now), at.After(now)
}
