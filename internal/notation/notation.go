// Package notation parses and formats rates and durations, for files of limits and for the tool rrl.
package notation

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxPermits is the largest number of permits of a rate.
const MaxPermits = 1 << 53

// These describe texts, for errors.
const (
	WantRate     = "a text like 10/s, 100/minute, 5/30s or 1000/day"
	WantDuration = "a text like 500ms, 30s, 1m30s, 12h or 7d, in whole milliseconds, above 0 and below 292 years"
)

const day = 24 * time.Hour

// units are the durations that have a name.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": day, "day": day,
	"w": 7 * day, "week": 7 * day,
}

// calendarUnits are the units of the calendar, as numbers of a limit.Unit.
var calendarUnits = map[string]int{"d": 1, "day": 1, "w": 2, "week": 2, "month": 3, "year": 4}

// Per is the time in which a rate grants its permits: an interval, or a unit of the calendar.
type Per struct {
	Interval time.Duration
	Unit     int // a limit.Unit
}

// ParseRate parses a rate such as "100/minute" or "5/30s", of 0 permits or more. For the calendar, its
// time is a unit such as in "1000/month".
func ParseRate(text string, calendar bool) (permits int64, per Per, err error) {
	count, time, ok := strings.Cut(text, "/")
	n, err := strconv.ParseUint(strings.TrimSpace(count), 10, 63)
	if ok && (n > MaxPermits || errors.Is(err, strconv.ErrRange)) {
		return 0, Per{}, fmt.Errorf("%q has too many permits, want at most 2^53, %d", text, int64(MaxPermits))
	}
	if !ok || err != nil {
		return 0, Per{}, fmt.Errorf("%q is no rate, want %s", text, WantRate)
	}
	per, err = ParsePer(strings.TrimSpace(time), calendar)
	return int64(n), per, err
}

// ParsePer parses the time of a rate: "minute", "30s", or for the calendar "month".
func ParsePer(text string, calendar bool) (Per, error) {
	unit := calendarUnits[text]
	if calendar {
		if unit == 0 {
			return Per{}, fmt.Errorf("no unit %q of the calendar, want day, week, month or year", text)
		}
		return Per{Unit: unit}, nil
	}
	interval, named := units[text]
	switch {
	case named:
		return Per{Interval: interval}, nil
	case unit != 0:
		return Per{}, fmt.Errorf("a %s has no fixed length: it needs the policy calendar", text)
	}
	interval, err := ParseDuration(text)
	if err != nil && (text == "" || text[0] < '0' || text[0] > '9') {
		err = fmt.Errorf("no unit %q, want second, minute, hour, day, week, or a length of time like 30s", text)
	}
	return Per{Interval: interval}, err
}

// ParseDuration parses a duration of whole milliseconds above 0. It accepts days and weeks besides the
// units of Go.
func ParseDuration(text string) (time.Duration, error) {
	unit := time.Duration(0)
	switch {
	case strings.HasSuffix(text, "d"):
		unit = day
	case strings.HasSuffix(text, "w"):
		unit = 7 * day
	}
	d, err := time.ParseDuration(text)
	if unit > 0 {
		var n int64
		n, err = strconv.ParseInt(text[:len(text)-1], 10, 64)
		if d = time.Duration(n) * unit; n > int64(math.MaxInt64/unit) {
			err = strconv.ErrRange
		}
	}
	if err != nil || d <= 0 || d%time.Millisecond != 0 || text[0] == '+' {
		return 0, fmt.Errorf("%q is no length of time, want %s", text, WantDuration)
	}
	return d, nil
}

// FormatDuration formats a duration without zero units: 1m, not 1m0s.
func FormatDuration(d time.Duration) string {
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
