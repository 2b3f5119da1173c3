package limit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
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

var _ = policy.Register(policy.Kind[SlidingWindow]{
	Name: "sliding_window",
	Describe: func(p SlidingWindow) policy.Description {
		key := keyPart("sliding", p.Interval) + ":" + strconv.FormatInt(p.cells(), 10)
		d := windowDescription(key, p.Permits, p.Interval, policy.ByAge)
		d.Longest = 256 + 40*p.cells()
		return d
	},
	Fields: []policy.Field{{Name: "cells", Type: policy.Count, Min: 2, Max: 1000,
		Want: "a whole number of cells, 2 to 1000"}},
	New: func(r policy.Rate) SlidingWindow {
		return SlidingWindow{r.Permits, r.Interval, int(policy.Value[int64](r, "cells"))}
	},
	Words: []string{"sliding"},
	FromKey: func(_, rest string) SlidingWindow {
		interval, text, _ := strings.Cut(rest, ":")
		cells, _ := strconv.Atoi(text)
		return SlidingWindow{1, policy.KeyInterval(interval), cells}
	},
	Short: func(p SlidingWindow) string {
		if p.cells() == defaultCells {
			return ""
		}
		return ",cells=" + strconv.FormatInt(p.cells(), 10)
	},
	Read: SlidingWindow.read,
})

// read reads "<epoch> <sum> <newest> <count>" and " <cell>:<permits>" of each older cell, the oldest
// first.
func (p SlidingWindow) read(c policy.Content) (s policy.State, ok bool) {
	fields := strings.Split(c.Text, " ")
	if len(fields) < 4 {
		return s, false
	}
	n, ok := numbersOf(fields[1:4]...)
	if !ok {
		return s, false
	}
	now, length := c.Now.UnixMilli(), p.Interval.Milliseconds()/p.cells()
	newest := n[1]
	first := max(now/length, newest) - p.cells() // the first that overlaps the interval
	for _, text := range append(fields[4:], fmt.Sprintf("%d:%d", newest, n[2])) {
		cell, permits, _ := strings.Cut(text, ":")
		n, ok := numbersOf(cell, permits)
		if !ok || n[0] > newest {
			return s, false
		}
		if n[0] < first || n[1] == 0 {
			continue
		}
		s.Taken += n[1]
		s.Ends = (n[0]+p.cells()+1)*length - now
		s.Returns = append(s.Returns, policy.Return{AfterMS: s.Ends, Permits: n[1]})
	}
	return s, true
}

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

const defaultCells = 10

func (p SlidingWindow) cells() int64 { return int64(cmp.Or(p.Cells, defaultCells)) }

func (p SlidingWindow) arguments(args []string, _ time.Time) []string {
	cell := p.Interval.Milliseconds() / p.cells()
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(cell, 10), strconv.FormatInt(p.cells(), 10))
}

func (p SlidingWindow) forecast(r *redisx.Reply) forecast { return returnsOf(p.Permits, p.Interval, r) }
