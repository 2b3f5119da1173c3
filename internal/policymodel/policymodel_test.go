package policymodel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClone_RandomCalls_LeaveTheOriginal: each model answers as one of which no clone was changed.
func TestClone_RandomCalls_LeaveTheOriginal(t *testing.T) {
	for _, begin := range []func() Model{
		func() Model { return &FixedWindow{Permits: 10, Interval: 1e6} },
		func() Model { return &Calendar{Permits: 10, Unit: Day, In: time.UTC} },
		func() Model { return &SlidingLog{Permits: 10, Interval: 1e6} },
		func() Model { return &SlidingWindow{Permits: 10, Cell: 1e5, Cells: 10} },
		func() Model { return &TokenBucket{Capacity: 20, Refill: 5, Interval: 1e6} },
		func() Model { return NewSmooth(10, 1, 0) },
	} {
		m, want := begin(), begin()
		t.Run(fmt.Sprintf("%T", m), func(t *testing.T) {
			now := int64(1e15)
			calls, others := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
			for range 500 {
				now += calls.Int64N(3e5)
				clone := m.Clone()
				for range 3 {
					call(clone, others, now)
				}
				seed := calls.Uint64()
				require.Equal(t, call(want, rand.New(rand.NewPCG(seed, 0)), now), call(m, rand.New(rand.NewPCG(seed, 0)), now))
			}
		})
	}
}

// call makes a random call, and returns all answers after it.
func call(m Model, random *rand.Rand, now int64) (answers []any) {
	n := 1 + random.Int64N(8)
	switch random.IntN(3) {
	case 0:
		m.Charge(now, n)
	case 1:
		m.Release(now, n)
	default:
		answers = append(answers, Take(m, now, n))
	}
	return append(answers, m.Free(now), m.Wait(now, n), m.Reset(now))
}
