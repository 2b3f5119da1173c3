package names

import (
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// Rate formats permits and interval: "100/1m".
func Rate(r rratelimiter.Rate) string {
	return strconv.FormatInt(r.Permits, 10) + "/" + notation.FormatDuration(r.Interval)
}

// About formats a waiting time with about two significant digits.
func About(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return notation.FormatDuration(d.Round(time.Second))
	case d < 48*time.Hour:
		return notation.FormatDuration(d.Round(time.Minute))
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
}
