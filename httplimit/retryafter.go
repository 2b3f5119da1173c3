package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// retryOf returns how long a response asks clients to pause.
func retryOf(resp *http.Response, now time.Time) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		after, err := strconv.ParseInt(text, 10, 64)
		if err != nil || after > int64(guard.LongestPause/time.Second) {
			return guard.LongestPause, true
		}
		return time.Duration(after) * time.Second, after > 0
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	// A date is by the clock of the server, whose time is in Date.
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	return at.Sub(now), at.After(now)
}
