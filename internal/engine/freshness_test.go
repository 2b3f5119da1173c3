package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// arrivals makes so many waiters for one permit more than the one before arrive.
func arrivals(f *freshness, count int) (waiters []*waiter) {
	var l list
	wanted := int64(0)
	for i := range count {
		w := waiterFor(int64(i + 1))
		f.arrive(w, wanted)
		l.push(w)
		wanted += w.Permits
		waiters = append(waiters, w)
	}
	return waiters
}

func TestFreshness_Call_CoversThoseThatArrivedBefore(t *testing.T) {
	var f freshness
	before := arrivals(&f, 2)
	assert.Nil(t, f.toCheck(), "no call was sent")
	f.call()
	late := waiterFor(5)
	f.arrive(late, 3)
	before[1].next = late
	assert.True(t, f.knows(before[1]))
	assert.False(t, f.knows(late))
	for i, w := range before {
		assert.Same(t, w, f.toCheck())
		assert.EqualValues(t, i, f.ahead)
		f.pass(w)
	}
	assert.Nil(t, f.toCheck(), "the late one arrived after the call")
	assert.Same(t, late, f.unchecked)
	assert.EqualValues(t, 3, f.ahead)
}

func TestFreshness_WaiterLeaves_UncheckedAndPermitsFollow(t *testing.T) {
	for name, test := range map[string]struct {
		leaves, unchecked int
		ahead             int64
	}{
		"checked before":      {0, 1, 0},
		"the unchecked one":   {1, 2, 1},
		"after the unchecked": {2, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var f freshness
			waiters := arrivals(&f, 3)
			f.call()
			f.pass(waiters[0])
			f.leave(waiters[test.leaves])
			assert.Same(t, waiters[test.unchecked], f.unchecked)
			assert.Equal(t, test.ahead, f.ahead)
		})
	}
}

func TestFreshness_Plan_SoonestCounts(t *testing.T) {
	var f freshness
	now := time.Now()
	assert.Equal(t, now, f.next(now))
	assert.True(t, f.plan(now))
	assert.False(t, f.plan(now))
	assert.False(t, f.plan(now.Add(1)))
	assert.True(t, f.plan(now.Add(-1)))
	assert.Equal(t, now.Add(-1), f.next(now))
	assert.Equal(t, now.Add(-2), f.next(now.Add(-2)))
	f.call()
	assert.Equal(t, now, f.next(now), "the call was for them")
}

// TestFreshness_LimiterChanged_AllAreChecked: by the reply to the next call.
func TestFreshness_LimiterChanged_AllAreChecked(t *testing.T) {
	var f freshness
	f.changed = true
	f.call()
	assert.True(t, f.recheck)
	assert.False(t, f.changed)
	f.call()
	assert.False(t, f.recheck)
}
