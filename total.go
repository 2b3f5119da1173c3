package rratelimiter

import "math/bits"

// total is a sum of permits that cannot overflow, however many callers there are.
type total struct{ high, low uint64 }

func (t *total) add(permits int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(permits), 0)
	t.high += carry
}

func (t *total) sub(permits int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(permits), 0)
	t.high -= borrow
}

// rounds says how often so many permits take a whole rate, and how many are left for the last time, 1 to rate. It says
// false where that is more often than can be counted.
func (t total) rounds(rate int64) (times uint64, rest int64, ok bool) {
	t.sub(1)
	if t.high >= uint64(rate) {
		return 0, 0, false
	}
	times, before := bits.Div64(t.high, t.low, uint64(rate))
	return times, int64(before) + 1, true
}
