package limit

import (
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// longestText is more bytes than a text has that does not grow with the policy.
const longestText = 256

// keyInterval parses the interval that keyPart has written. It returns 0 for another text.
func keyInterval(text string) time.Duration {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > maxInterval.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// per formats the interval of a rate: "/1m".
func per(interval time.Duration) string { return "/" + notation.FormatDuration(interval) }

// numbersAfterEpoch parses a text of an epoch and whole numbers of 0 or more, with spaces between them.
func numbersAfterEpoch(text string) ([]int64, bool) {
	epoch, rest, ok := strings.Cut(text, " ")
	if !ok || epoch == "" {
		return nil, false
	}
	return numbersOf(strings.Split(rest, " ")...)
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
