package faults

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/ledger"
)

// Outcome is what a Load came to.
type Outcome struct {
	Fault string

	t                  testing.TB
	goBooks, javaBooks *ledger.Ledger
	grants             []ledger.Grant // of both sides
	kept               []ledger.Grant // those that no loss of data may have wiped out
	lateCalls          int64
	latest             time.Duration
	missing            int64
	allTaken           bool
	left               []string // stacks of goroutines
	lost               int64    // permits of the others
}

// RequireCalm asserts what every fault must leave untouched: the errors of the Go callers are of the given kinds, and some that ended
// with their context; no call outlived its context; every permit is back; no goroutine is left.
func (o *Outcome) RequireCalm(kinds ...string) {
	o.t.Helper()
	require.Empty(o.t, o.goBooks.Unclassified(), "errors that a caller could not make sense of")
	for kind, n := range o.goBooks.Errors() {
		require.Contains(o.t, append(kinds, deadline), kind, "%d errors of a kind that this fault should not cause", n)
	}
	require.Zero(o.t, o.lateCalls, "calls outlived their contexts, the latest by %v", o.latest)
	require.Zero(o.t, o.missing, "permits are missing one interval after the end")
	require.True(o.t, o.allTaken, "permits were counted but not there to take")
	require.Empty(o.t, o.left, "goroutines are left")
}

// RequireWindows asserts that no window of one interval held more than the rate, but for what a loss of data allows: without the
// grants that may be lost no window held more than the rate, and with them no more than as many permits above it.
func (o *Outcome) RequireWindows() {
	o.t.Helper()
	worst := ledger.Worst(o.kept, Interval)
	require.LessOrEqual(o.t, worst.Permits, int64(Rate), "the window from %v, without what may be lost", worst.Start)
	worst = ledger.Worst(o.grants, Interval)
	require.LessOrEqual(o.t, worst.Permits, Rate+o.lost, "%d permits may be lost; the window from %v", o.lost, worst.Start)
}

// Table sets outcomes out as a Markdown table, one row for each fault, whose runs it puts together: their sums, and of a window, a pause
// and what must be 0 the worst. Figures of two sides are Go's and Java's.
func Table(outcomes ...*Outcome) string {
	rows := [][]string{{
		"fault", "runs", "calls", "grants", "denials", "errors of Go", "errors of Java", "longest pause",
		"worst window / rate", "may be lost", "missing", "goroutines left", "late calls",
	}}
	for len(outcomes) > 0 {
		fault := outcomes[0].Fault
		var runs, others []*Outcome
		for _, o := range outcomes {
			if o.Fault == fault {
				runs = append(runs, o)
			} else {
				others = append(others, o)
			}
		}
		rows = append(rows, row(runs))
		outcomes = others
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var table strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&table, "| %-*s ", widths[i], cell)
		}
		table.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprintf(&table, "| %s ", strings.Repeat("-", width))
			}
			table.WriteString("|\n")
		}
	}
	return table.String()
}

// row is what all runs of one fault came to.
func row(runs []*Outcome) []string {
	var goSide, javaSide ledger.Figures
	var goPause, javaPause time.Duration
	var worst, lost, missing, lateCalls int64
	left := 0
	for _, o := range runs {
		add(&goSide, o.goBooks)
		add(&javaSide, o.javaBooks)
		goPause = max(goPause, longestPause(o.goBooks.Grants()))
		javaPause = max(javaPause, longestPause(o.javaBooks.Grants()))
		worst = max(worst, ledger.Worst(o.grants, Interval).Permits)
		lost = max(lost, o.lost)
		missing = max(missing, o.missing)
		left = max(left, len(o.left))
		lateCalls += o.lateCalls
	}
	return []string{
		runs[0].Fault,
		fmt.Sprint(len(runs)),
		fmt.Sprintf("%d + %d", goSide.Calls(), javaSide.Calls()),
		fmt.Sprintf("%d + %d", goSide.Grants, javaSide.Grants),
		fmt.Sprintf("%d + %d", goSide.Denials, javaSide.Denials),
		errorsText(goSide.Errors),
		errorsText(javaSide.Errors),
		fmt.Sprintf("%.1f s, %.1f s", goPause.Seconds(), javaPause.Seconds()),
		fmt.Sprintf("%.3f", float64(worst)/Rate),
		fmt.Sprint(lost),
		fmt.Sprint(missing),
		fmt.Sprint(left),
		fmt.Sprint(lateCalls),
	}
}

func add(sum *ledger.Figures, books *ledger.Ledger) {
	f := books.Figures("", Rate, Interval, 0, 0)
	sum.Grants += f.Grants
	sum.Denials += f.Denials
	if sum.Errors == nil {
		sum.Errors = make(map[string]int64)
	}
	for kind, n := range f.Errors {
		sum.Errors[kind] += n
	}
}

// longestPause is the longest time in which nobody was granted anything.
func longestPause(grants []ledger.Grant) time.Duration {
	slices.SortFunc(grants, func(a, b ledger.Grant) int { return a.End.Compare(b.End) })
	var longest time.Duration
	for i := 1; i < len(grants); i++ {
		longest = max(longest, grants[i].End.Sub(grants[i-1].End))
	}
	return longest
}

func errorsText(counts map[string]int64) string {
	texts := make([]string, 0, len(counts))
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	if len(texts) == 0 {
		return "0"
	}
	return strings.Join(texts, ", ")
}

// goroutinesLeft are the stacks of goroutines of the library or of its Redis client that do not end by themselves soon.
func goroutinesLeft() []string {
	// rueidis closes some connections after 5 s.
	ended := time.Now().Add(10 * time.Second)
	for {
		left := stacks("github.com/rratelimiter/rratelimiter.", "github.com/redis/rueidis.")
		if len(left) == 0 || time.Now().After(ended) {
			return left
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stacks are those of the goroutines that mention one of the packages.
func stacks(packages ...string) []string {
	all := make([]byte, 1<<20)
	for {
		n := runtime.Stack(all, true)
		if n < len(all) {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	var found []string
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		for _, name := range packages {
			if strings.Contains(stack, name) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}
