// Package notation parses and formats rates and durations, of the tool rrl and of policies.
package notation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const rateHelp = "write permits/interval, such as 100/1m or 5/s"

// ParseRate parses a rate: "100/1m", or "100/m".
func ParseRate(text string) (permits int64, interval time.Duration, err error) {
	count, length, ok := strings.Cut(text, "/")
	if !ok {
		return 0, 0, fmt.Errorf("%q is not a rate: %s", text, rateHelp)
	}
	if permits, err = strconv.ParseInt(count, 10, 64); err != nil || permits < 1 || permits > 1<<53 {
		return 0, 0, fmt.Errorf("%q is not a rate: permits are %q, want a whole number from 1 to 2^53; %s", text, count,
			rateHelp)
	}
	if interval, err = ParseDuration(length); err != nil {
		return 0, 0, fmt.Errorf("%q is not a rate: %w; %s", text, err, rateHelp)
	}
	return permits, interval, nil
}

// ParsePermits parses a number of permits. The error begins with subject, such as "capacity is".
func ParsePermits(subject, text string) (int64, error) {
	permits, err := strconv.ParseInt(text, 10, 64)
	if err != nil || permits < 1 {
		return 0, fmt.Errorf("%s %q, want a whole number above 0", subject, text)
	}
	return permits, nil
}

// ParseDuration parses a duration of whole milliseconds above 0: in Go's syntax, with d for days. A unit
// alone is one unit.
func ParseDuration(text string) (time.Duration, error) {
	long := text
	if text != "" && (text[0] < '0' || text[0] > '9') {
		long = "1" + text
	}
	d, err := time.ParseDuration(long)
	if days, ok := strings.CutSuffix(long, "d"); ok {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); err == nil && n > 106751 {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%q is not a duration in whole milliseconds above 0, such as 500ms, 1s, 1m, 2h or 7d", text)
	}
	return d, nil
}

// FormatDuration formats a duration without zero units: 1m, not 1m0s.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
