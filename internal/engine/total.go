package engine

import (
	"math/bits"
)

// Total is a sum of permits that cannot overflow, however many callers there are.
type Total struct{ high, low uint64 }

// Add adds permits.
func (t *Total) Add(permits int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(permits), 0)
	t.high += carry
}

// Sub takes off permits that were added.
func (t *Total) Sub(permits int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(permits), 0)
	t.high -= borrow
}

// Rounds says how often so many permits take a whole limit, and how many are left for the last time, 1 to the limit. It says
// false where that is more often than can be counted.
func (t Total) Rounds(limit int64) (times uint64, rest int64, ok bool) {
	t.Sub(1)
	if t.high >= uint64(limit) {
		return 0, 0, false
	}
	times, before := bits.Div64(t.high, t.low, uint64(limit))
	return times, int64(before) + 1, true
}

// Int64 is the sum, or the largest number there is where it is more.
func (t Total) Int64() int64 {
	if t.high > 0 || t.low > 1<<63-1 {
		return 1<<63 - 1
	}
	return int64(t.low)
}
