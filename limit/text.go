package limit

import (
	"strconv"
	"strings"
)

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
