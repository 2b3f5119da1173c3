package limit

import (
	"cmp"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// SlidingWindow grants at most Permits in any interval. It counts permits in cells, which begin at
// multiples of a cell's length since the Unix epoch. Permits return when their whole cell is an
// interval old: up to a cell later than with [SlidingLog]. Its memory and time are bounded by the
// number of cells.
//
// It is exact while less than 2^53 permits are taken. Only Charge can take more; then counts are
// rounded to 15 digits. Release returns the newest permits.
type SlidingWindow struct {
	Permits  int64         // an interval, 1 to 2^53
	Interval time.Duration // whole milliseconds
	Cells    int           // 2 to 1000, of whole milliseconds; 0 means 10
}

var _ = register(policy.Kind{
	Name: "sliding_window",
	Fields: []policy.Field{{Name: "cells", Type: policy.Count, Min: 2, Max: 1000,
		Want: "a whole number of cells, 2 to 1000"}},
	New: func(r policy.Rate) any {
		return SlidingWindow{r.Permits, r.Interval, int(policy.Value[int64](r, "cells"))}
	},
}, func(p SlidingWindow) policy.Description {
	return windowDescription(p.Permits, p.Interval, policy.ByAge)
})

func (p SlidingWindow) validate() error {
	if err := checkRate("SlidingWindow", p.Permits, p.Interval); err != nil {
		return err
	}
	cells := p.cells()
	if cells < 2 || cells > 1000 {
		return invalid("SlidingWindow.Cells is %d, want 2 to 1000, or 0 for 10", p.Cells)
	}
	if p.Interval.Milliseconds()%cells != 0 {
		return invalid("SlidingWindow.Interval is %v, which %d cells do not divide into whole milliseconds", p.Interval,
			cells)
	}
	return nil
}

func (p SlidingWindow) cells() int64 { return int64(cmp.Or(p.Cells, 10)) }

func (p SlidingWindow) kind() string { return "slidingwindow" }

func (p SlidingWindow) suffix() string {
	return keyPart("sliding", p.Interval) + ":" + strconv.FormatInt(p.cells(), 10)
}

func (p SlidingWindow) arguments(args []string, _ time.Time) []string {
	cell := p.Interval.Milliseconds() / p.cells()
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(cell, 10), strconv.FormatInt(p.cells(), 10))
}

func (p SlidingWindow) keeps() []string { return inString }

func (p SlidingWindow) most() int64 { return p.Permits }

func (p SlidingWindow) forecast(reply []int64) (forecast, bool) {
	return returnsOf(p.Permits, p.Interval, reply)
}
