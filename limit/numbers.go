package limit

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// numbersAfterEpoch parses a text of an epoch and count whole numbers of 0 or more, with spaces between them.
// If the text is another one, the numbers are 0.
func numbersAfterEpoch(text string, count int) ([]int64, bool) {
	epoch, rest, _ := strings.Cut(text, " ")
	n, ok := numbersOf(strings.Split(rest, " ")...)
	if !ok || epoch == "" || len(n) != count {
		return make([]int64, count), false
	}
	return n, true
}

// numbersOf parses words that are whole numbers of 0 or more.
func numbersOf(words ...string) ([]int64, bool) {
	all := make([]int64, len(words))
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 63)
		if err != nil {
			return nil, false
		}
		all[i] = int64(n)
	}
	return all, true
}

// micros converts microseconds to a duration, at most engine.Never.
func micros(n int64) time.Duration {
	if n > int64(engine.Never/time.Microsecond) {
		return engine.Never
	}
	return time.Duration(n) * time.Microsecond
}

// add returns the sum of two durations, at most engine.Never.
func add(a, b time.Duration) time.Duration {
	if b > 0 && a > engine.Never-b {
		return engine.Never
	}
	return a + b
}

// repeat returns a duration so many times, at most engine.Never.
func repeat(d time.Duration, times int64) time.Duration {
	if times > int64(engine.Never/d) {
		return engine.Never
	}
	return d * time.Duration(times)
}
