package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figures are the results of a run, one row of a table.
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

// Table returns runs as a Markdown table.
func Table(runs ...Figures) string {
	rows := [][]string{{"run", "calls", "grants", "denials", "errors", "worst window", "rate", "worst / rate",
		"missing", "goroutines left"}}
	for _, f := range runs {
		rows = append(rows, []string{
			f.Run,
			strconv.FormatInt(f.Calls(), 10),
			strconv.FormatInt(f.Grants, 10),
			strconv.FormatInt(f.Denials, 10),
			ErrorsText(f.Errors),
			strconv.FormatInt(f.Worst, 10),
			strconv.FormatInt(f.Rate, 10),
			ratio(f.Worst, f.Rate),
			strconv.FormatInt(f.Missing, 10),
			strconv.Itoa(f.Goroutines),
		})
	}
	return Markdown(rows)
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
		texts[i] = fmt.Sprintf("%s %d", strings.ReplaceAll(kind, "|", `\|`), counts[kind])
	}
	if len(texts) == 0 {
		return "0"
	}
	return strings.Join(texts, ", ")
}

func ratio(worst, rate int64) string {
	if rate == 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(worst)/float64(rate), 'f', 3, 64)
}

// Markdown returns a table of rows, the first of which is the head. The first column and errors are
// aligned to the left, all others to the right.
func Markdown(rows [][]string) string {
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	sides := make([]string, len(rows[0]))
	for i, title := range rows[0] {
		sides[i] = "--:"
		if i == 0 || strings.HasPrefix(title, "errors") {
			sides[i] = "---"
		}
	}
	text := line(rows[0]) + line(sides)
	for _, row := range rows[1:] {
		text += line(row)
	}
	return text
}
