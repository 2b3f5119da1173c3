package ledger

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Window is a span of time, half open, and what certainly fell into it.
type Window struct {
	Start   time.Time
	Permits int64
	Grants  int
}

// Worst returns the window of the interval's length into which the most permits certainly fell. A
// limiter that keeps its rate has no more than the rate there, regardless of the network.
//
// A grant took effect at an unknown time between Start and End of its call. So only a grant with
// the whole of [Start, End] in [t, t+interval) proves anything about that window. The proof is
// sound. Say that grants of more than the rate lie wholly in a window, and X is the one of them
// that Redis made last. Then some other one, Y, had expired before X. Its time is no earlier than
// its Start, so the call that removed it read a clock at or after t+interval. X was made after that
// call and cannot have ended before t+interval.
//
// For that the callers have one clock, the one that dates grants. It dates them in whole
// milliseconds, always down: a grant of 10.9 ms counts as one of 10 ms and leaves a window of 1 s
// at 1010 ms. Therefore Start is rounded down to milliseconds.
//
// Permits that are released early may be granted again in the same window, so a run whose callers
// release some cannot be checked like this.
//
// The scores in Redis prove less: they show when callers read their clocks, and calls of two
// processes may overtake each other after that.
func Worst(grants []Grant, interval time.Duration) Window {
	latestFirst := slices.Clone(grants)
	slices.SortFunc(latestFirst, func(a, b Grant) int { return cmp.Compare(starts(b), starts(a)) })

	// The fullest window can be moved on until it starts where one of its grants does. With t going
	// back, a grant that has fallen out at the end never returns.
	var worst Window
	var inside byEnd
	var permits int64
	for i, g := range latestFirst {
		heap.Push(&inside, g)
		permits += g.Permits
		if i+1 < len(latestFirst) && starts(latestFirst[i+1]) == starts(g) {
			continue
		}
		for len(inside) > 0 && inside[0].End.UnixNano() >= starts(g)+int64(interval) {
			permits -= heap.Pop(&inside).(Grant).Permits
		}
		if permits > worst.Permits {
			worst = Window{Start: time.Unix(0, starts(g)), Permits: permits, Grants: len(inside)}
		}
	}
	return worst
}

// starts is the Start of a grant in Unix nanoseconds, by the limiter's clock: in whole
// milliseconds.
func starts(g Grant) int64 { return g.Start.UnixMilli() * int64(time.Millisecond) }

// byEnd is a heap with the grant that ends last on top.
type byEnd []Grant

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, j int) bool { return h[i].End.UnixNano() > h[j].End.UnixNano() }
func (h byEnd) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byEnd) Push(g any)        { *h = append(*h, g.(Grant)) }
func (h *byEnd) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
