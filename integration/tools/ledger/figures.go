package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Figures are the results of a run.
type Figures struct {
	Run             string
	Grants, Denials int64
	Errors          map[string]int64 // by kind
	Worst           int64            // permits in the fullest window
	Rate            int64            // permits that a window may hold
	Missing         int64            // permits that were not back one interval after the end
	Goroutines      int              // left after the end
}

// Figures returns the figures of the run. The caller counts missing permits and goroutines.
func (l *Ledger) Figures(run string, rate int64, interval time.Duration, missing int64, goroutines int) Figures {
	return Figures{
		Run:        run,
		Grants:     int64(len(l.Grants())),
		Denials:    l.Denials(),
		Errors:     l.Errors(),
		Worst:      l.Worst(interval).Permits,
		Rate:       rate,
		Missing:    missing,
		Goroutines: goroutines,
	}
}

// Calls returns the number of calls.
func (f Figures) Calls() int64 {
	calls := f.Grants + f.Denials
	for _, n := range f.Errors {
		calls += n
	}
	return calls
}

func (f Figures) String() string {
	return fmt.Sprintf("%s: %d calls, %d grants, %d denials, errors: %s; the fullest window holds %d of %d; %d permits are "+
		"missing and %d goroutines left", f.Run, f.Calls(), f.Grants, f.Denials, ErrorsText(f.Errors), f.Worst, f.Rate,
		f.Missing, f.Goroutines)
}

// ErrorsText lists the kinds of errors, the most frequent first.
func ErrorsText(counts map[string]int64) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(min(max(counts[b]-counts[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = fmt.Sprint(kind, " ", counts[kind])
	}
	if len(texts) == 0 {
		return "0"
	}
	return strings.Join(texts, ", ")
}
