package rulefile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a duration above 0, in whole milliseconds.
type Duration time.Duration

// WantDuration describes a duration for errors.
const WantDuration = "a text like 500ms, 30s, 1m30s, 12h or 7d, in whole milliseconds, above 0 and below 292 years"

// Want describes a duration.
func (*Duration) Want() string { return WantDuration }

// UnmarshalText decodes a duration, see [ParseDuration].
func (l *Duration) UnmarshalText(text []byte) error {
	length, ok := ParseDuration(string(text))
	if !ok {
		return fmt.Errorf("%q is no length of time, want %s", Clip(string(text)), WantDuration)
	}
	*l = Duration(length)
	return nil
}

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
