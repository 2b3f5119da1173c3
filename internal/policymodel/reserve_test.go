package policymodel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestCancel_RandomOrder_StaysWithinTheMaximum: what a bucket grants in any interval, if some of its
// reservations are cancelled before their times. docs/choosing.md has the maximum.
func TestCancel_RandomOrder_StaysWithinTheMaximum(t *testing.T) {
	const capacity, minute = 4, int64(6e7)
	type reserved struct {
		at, permits int64
		reservation any
	}
	for seed := range uint64(redistest.Deep(80, 300)) {
		for leaky, most := range map[bool]int64{false: capacity, true: capacity * 3 / 2} {
			random := rand.New(rand.NewPCG(seed, 0))
			m := &TokenBucket{Capacity: capacity, Refill: 1, Interval: minute, Leaky: leaky}
			var made []reserved
			now := int64(1e15)
			for range 60 {
				now += max(0, random.Int64N(4*minute)-2*minute)
				if which := len(made) - 1 - random.IntN(4); random.IntN(9) < 4 && which >= 0 && made[which].at > now {
					m.Cancel(now, made[which].reservation)
					made = append(made[:which], made[which+1:]...)
				} else if m.Free(now) > -6*capacity {
					n := 1 + random.Int64N(capacity)
					delay, reservation := m.Reserve(now, n)
					made = append(made, reserved{now + delay, n, reservation})
				}
			}
			for _, from := range made {
				for _, to := range made {
					sum := int64(0)
					for _, r := range made {
						if r.at >= from.at && r.at <= to.at {
							sum += r.permits
						}
					}
					if sum*minute > most*minute+max(0, to.at-from.at) { // require would take most of the time
						require.Fail(t, "too many permits", "seed %d, leaky %t: %d from %v to %v", seed, leaky, sum, from, to)
					}
				}
			}
		}
	}
}
