package rulefile

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration decodes a duration above 0.
func (d *Decoder) Duration(n *Node) time.Duration {
	text, ok := d.Text(n, WantDuration)
	if !ok || n == nil {
		return 0
	}
	length, ok := ParseDuration(text)
	if !ok {
		d.Fail(n, "%q is no length of time, want %s", Clip(text), WantDuration)
		return 0
	}
	return length
}

// WantDuration describes a duration for errors.
const WantDuration = "a text like 500ms, 30s, 1m30s, 12h or 7d, in whole milliseconds, above 0 and below 292 years"

// ParseDuration parses a duration above 0, in whole milliseconds. It accepts days and weeks besides
// the units of Go.
func ParseDuration(text string) (time.Duration, bool) {
	const day = 24 * time.Hour
	unit := time.Duration(0)
	switch {
	case strings.HasSuffix(text, "d"):
		unit = day
	case strings.HasSuffix(text, "w"):
		unit = 7 * day
	}
	if unit > 0 {
		n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		return time.Duration(n) * unit, err == nil && n > 0 && n <= int64(math.MaxInt64/unit) && text[0] != '+'
	}
	length, err := time.ParseDuration(text)
	return length, err == nil && length > 0 && length%time.Millisecond == 0 && text[0] != '+'
}
