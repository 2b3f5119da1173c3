package guard

import "time"

// Spread adds a random part to the times after which clients retry, so that clients that were
// refused at the same time do not return at the same time.
type Spread struct {
	Most   time.Duration       // 0 for none
	Random func(n int64) int64 // returns a number from 0 to n-1
}

// Add returns a random time of at least after, and less than Most above it. A time of 0, which
// means that no retry helps, stays 0.
func (s Spread) Add(after time.Duration) time.Duration {
	if s.Most <= 0 || after <= 0 {
		return after
	}
	return max(after, after+time.Duration(s.Random(int64(s.Most)))) // the sum may overflow
}

// RoundUp returns d in whole units, rounded up.
func RoundUp(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
