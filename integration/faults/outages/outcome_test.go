package outages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// Outcome has the results of a Load.
type Outcome struct {
	*Load
	grants   []ledger.Grant // of both sides
	kept     []ledger.Grant // those that a loss of data may not have removed
	run      span           // of the callers
	missing  int64
	allTaken bool
	lost     int64 // permits of the others
	joined   bool  // the parts of the Join agree
}

// Most is how many calls of Go may fail by each kind of error, in one run. Other kinds may not
// occur.
type Most map[string]int64

// once returns how many calls fail if one call of each caller fails at each fault.
func (o *Outcome) once() int64 { return int64(goCallers * len(o.faults)) }

// onceEach is once for each connection of rueidis to a server, which notice a fault one after
// another.
func (o *Outcome) onceEach() int64 { return 4 * o.once() }

// oftenBy returns how many calls fail if all calls fail during the faults, and each takes at least
// so long.
func (o *Outcome) oftenBy(each time.Duration) int64 {
	var broken time.Duration
	for _, fault := range o.faults {
		broken += fault.to.Sub(fault.from) + settled
	}
	return int64(goCallers * (broken/each + 1))
}

// Require asserts RequireCalm and RequireWindows, and that the parts of the Join agree. Calls of the
// Join may fail in the same ways.
func (o *Outcome) Require(most Most) {
	o.t.Helper()
	o.RequireCalm(most)
	o.RequireWindows()
	require.True(o.t, o.joined, "the parts of the Join do not agree")
	for kind, n := range o.join.book.Errors() {
		_, expected := most[kind]
		require.True(o.t, expected || kind == deadline || kind == cancelled, "%d errors of the Join: %s", n, kind)
	}
}

// RequireCalm asserts the promises for every fault. The errors of the Go callers have the given
// kinds and at most the given numbers, and their calls met a fault. No call returned long after its
// context ended. Every permit is free. Outside faults, both libraries took
// permits. If this process or a plain command stalled, calls may also end with their contexts.
func (o *Outcome) RequireCalm(most Most) {
	o.t.Helper()
	require.Empty(o.t, o.goBooks.Unclassified(), "unclassified errors")
	broken := func(failure ledger.Failure) bool {
		return slices.ContainsFunc(o.faults,
			func(fault span) bool { return span{fault.from, fault.to.Add(settled)}.meets(failure) })
	}
	_, awaited := most[deadline]
	kinds := o.goBooks.Errors()
	failures := slices.DeleteFunc(o.goBooks.Failures(), func(f ledger.Failure) bool {
		if f.Kind != deadline || awaited && broken(f) {
			return false
		}
		stood := slices.ContainsFunc(o.stalls, func(s span) bool { return s.meets(f) })
		excused := stood || o.outrun(f)
		if excused {
			kinds[deadline]--
		}
		return excused
	})
	if excused := o.goBooks.Errors()[deadline] - kinds[deadline]; excused > 0 {
		o.t.Logf("%d calls ended with their contexts while others took the permits, or while a plain command was not "+
			"answered either, %d times for more than %v", excused, len(o.stalls), stall)
	}
	maps.DeleteFunc(kinds, func(_ string, n int64) bool { return n == 0 })
	for kind, n := range kinds {
		require.Contains(o.t, most, kind, "%d errors of a kind that this fault should not cause:%s", n,
			listed(failures, kind))
		require.LessOrEqual(o.t, n, most[kind], "errors of the kind %q:%s", kind, listed(failures, kind))
	}
	for _, failure := range failures {
		require.True(o.t, broken(failure), "when nothing was broken: %v:%s", o.faults,
			listed([]ledger.Failure{failure}, failure.Kind))
	}
	o.requireLoad()
	stood := o.asleep // or the longest stall that is no part of a fault
	for _, s := range o.stalls {
		if !slices.ContainsFunc(o.faults,
			func(fault span) bool { return !s.to.Before(fault.from) && !s.from.After(fault.to) }) {
			stood = max(stood, s.to.Sub(s.from))
		}
	}
	require.LessOrEqual(o.t, o.latest.Get(), late+2*stood,
		"%d calls outlived their contexts by more than %v; a plain command or a sleep was late by %v", o.lateCalls.Load(),
		late, stood)
	require.Zero(o.t, o.missing, "permits are missing one interval after the end")
	require.True(o.t, o.allTaken, "permits were counted but not there to take")
}

// outrun reports whether a call waited until its context ended while the queue was served: another
// waiting caller got permits within the last interval. The error does not tell: it is that of the
// context, if the deadline passed during a call to Redis.
func (o *Outcome) outrun(f ledger.Failure) bool {
	//nolint:errorlint // errors that wrap it name the limiter: Redis has not answered
	return f.Who == waits && f.Err == context.DeadlineExceeded &&
		slices.ContainsFunc(o.goBooks.Grants(), func(g ledger.Grant) bool {
			return g.Who == waits && g.End.After(f.End.Add(-Interval)) && g.End.Before(f.End)
		})
}

// listed describes the first failures of a kind, each in a line.
func listed(failures []ledger.Failure, kind string) string {
	const most = 10
	var text strings.Builder
	n := 0
	for _, f := range failures {
		if f.Kind != kind {
			continue
		}
		if n++; n > most {
			break
		}
		fmt.Fprintf(&text, "\n%q of a call from %v to %v, in %v: %v", kind, f.Start, f.End, f.End.Sub(f.Start), f.Err)
	}
	return text.String()
}

// requireLoad asserts that callers of both libraries took permits outside faults. Together they took at least a third
// of the rate. If the machine is so busy that a plain command and a pause take more than two pauses, that is less by
// as much. No promise says which caller gets a returning permit: one grant is enough for Java, and one per second for
// Go's callers that wait, which others often outrun.
func (o *Outcome) requireLoad() {
	o.t.Helper()
	whole := []span{o.run}
	for _, fault := range o.faults {
		last := whole[len(whole)-1]
		whole[len(whole)-1].to = fault.from
		whole = append(whole, span{fault.to.Add(settled), last.to})
	}
	var length time.Duration
	var permits int64
	grants, plain := make(map[string]int), 0
	for _, calm := range whole {
		length += max(0, calm.to.Sub(calm.from))
		for _, at := range o.plain {
			if at.After(calm.from) && at.Before(calm.to) {
				plain++
			}
		}
		for _, g := range append(o.goBooks.Grants(), o.javaBooks.Grants()...) {
			if calm.holds(g) {
				permits += g.Permits
				grants[g.Who]++
			}
		}
	}
	allowed := Rate * length.Seconds() / Interval.Seconds()
	speed := min(1, float64(plain)*(2*pause).Seconds()/length.Seconds())
	o.t.Logf("in %v of calm: grants %v, %.2f of the rate; %d plain commands", length.Round(time.Millisecond), grants,
		float64(permits)/allowed, plain)
	require.Greater(o.t, length, Interval, "something was broken nearly all the time")
	require.Greater(o.t, float64(permits), speed*allowed/3, "the load was idle")
	require.Greater(o.t, float64(grants[waits]), length.Seconds(), "callers of Go that wait were not served")
	require.Positive(o.t, grants["java"], "Java was idle")
}

// RequireWindows asserts that no window of an interval held more than the rate. Grants that may be
// lost can exceed it by their permits.
func (o *Outcome) RequireWindows() {
	o.t.Helper()
	worst := ledger.Worst(o.kept, Interval)
	require.LessOrEqual(o.t, worst.Permits, int64(Rate), "the window from %v, without what may be lost", worst.Start)
	worst = ledger.Worst(o.grants, Interval)
	require.LessOrEqual(o.t, worst.Permits, Rate+o.lost, "%d permits may be lost; the window from %v", o.lost,
		worst.Start)
}

// Table returns outcomes as a Markdown table with one row for each fault. A row has the sums of its
// runs, and the worst of windows, pauses and what must be 0. Pairs are the figures of Go and Java.
func Table(outcomes ...*Outcome) string {
	text := "| fault | runs | calls | grants | denials | errors of Go | errors of Java | longest pause | worst window / rate " +
		"| may be lost | missing | late calls |\n| --- |" + strings.Repeat(" --: |", 11) + "\n"
	for len(outcomes) > 0 {
		fault := outcomes[0].fault
		var runs, others []*Outcome
		for _, o := range outcomes {
			if o.fault == fault {
				runs = append(runs, o)
			} else {
				others = append(others, o)
			}
		}
		text += row(runs)
		outcomes = others
	}
	return text
}

// row returns the row of all runs of a fault.
func row(runs []*Outcome) string {
	var goSide, javaSide ledger.Figures
	var goPause, javaPause time.Duration
	var worst, lost, missing, lateCalls int64
	for _, o := range runs {
		add(&goSide, o.goBooks)
		add(&javaSide, o.javaBooks)
		goPause = max(goPause, longestPause(o.goBooks.Grants()))
		javaPause = max(javaPause, longestPause(o.javaBooks.Grants()))
		worst = max(worst, ledger.Worst(o.grants, Interval).Permits)
		lost = max(lost, o.lost)
		missing = max(missing, o.missing)
		lateCalls += o.lateCalls.Load()
	}
	return fmt.Sprintf("| %s | %d | %d + %d | %d + %d | %d + %d | %s | %s | %.1f s, %.1f s | %.3f | %d | %d | %d |\n",
		runs[0].fault, len(runs), goSide.Calls(), javaSide.Calls(), goSide.Grants, javaSide.Grants, goSide.Denials,
		javaSide.Denials, ledger.ErrorsText(goSide.Errors), ledger.ErrorsText(javaSide.Errors), goPause.Seconds(),
		javaPause.Seconds(), float64(worst)/Rate, lost, missing, lateCalls)
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

// longestPause returns the longest time without a grant.
func longestPause(grants []ledger.Grant) time.Duration {
	slices.SortFunc(grants, func(a, b ledger.Grant) int { return a.End.Compare(b.End) })
	var longest time.Duration
	for i := 1; i < len(grants); i++ {
		longest = max(longest, grants[i].End.Sub(grants[i-1].End))
	}
	return longest
}

// failureRecorder is a test that records its failure.
type failureRecorder struct {
	testing.TB
	failed bool
}

func (r *failureRecorder) Helper()               {}
func (r *failureRecorder) Logf(string, ...any)   {}
func (r *failureRecorder) Errorf(string, ...any) { r.failed = true }
func (r *failureRecorder) FailNow()              { panic(r) }

// Runs with wrong results fail.
func TestOutcome_RequireCalm(t *testing.T) {
	begin := time.Now()
	from := func(start, end float64) span {
		at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
		return span{at(start), at(end)}
	}
	failed := func(s span, kind string) ledger.Failure {
		return ledger.Failure{Start: s.from, End: s.to, Kind: kind}
	}
	ended := func(who string, err error) ledger.Failure {
		return ledger.Failure{Start: from(3, 4).from, End: from(3, 4).to, Kind: deadline, Err: err, Who: who}
	}
	fault := []span{from(3, 4)}
	once, late := failed(from(3, 4), cut), failed(from(3, 4), deadline)
	for name, test := range map[string]struct {
		calm           bool
		faults, stalls []span
		failures       []ledger.Failure
	}{
		"errors while it is broken": {true, fault, nil,
			[]ledger.Failure{failed(from(2, 3.1), cut), failed(from(4.9, 6), cut)}},
		"one more than may be":         {false, fault, nil, []ledger.Failure{once, once, once}},
		"one before":                   {false, fault, nil, []ledger.Failure{failed(from(2, 2.9), cut)}},
		"one too long after":           {false, fault, nil, []ledger.Failure{failed(from(5.1, 6), cut)}},
		"one of another kind":          {false, fault, nil, []ledger.Failure{failed(from(3, 4), refused)}},
		"a deadline":                   {false, fault, nil, []ledger.Failure{late}},
		"a deadline during a stall":    {true, nil, []span{from(3.5, 3.8)}, []ledger.Failure{late}},
		"a deadline without a stall":   {false, nil, []span{from(4.5, 4.8)}, []ledger.Failure{late}},
		"another error during a stall": {false, nil, fault, []ledger.Failure{failed(from(3, 4), refused)}},
		"a wait that others outran":    {true, nil, nil, []ledger.Failure{ended(waits, context.DeadlineExceeded)}},
		"a wait without an answer": {false, nil, nil,
			[]ledger.Failure{ended(waits, fmt.Errorf("shop: %w", context.DeadlineExceeded))}},
		"a try without an answer": {false, nil, nil, []ledger.Failure{ended(tries, context.DeadlineExceeded)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := evenLoad(begin, 400, waits)
			o.faults, o.stalls = test.faults, test.stalls
			for _, failure := range test.failures {
				o.goBooks.FailedAt(failure)
			}
			require.Equal(t, test.calm, calm(t, o))
		})
	}
	require.True(t, calm(t, evenLoad(begin, 400, waits)))
	require.False(t, calm(t, evenLoad(begin, 50, waits)), "it was idle")
	starved := evenLoad(begin, 400, tries)
	require.False(t, calm(t, starved), "waiting callers got nothing")
	require.False(t, starved.outrun(ended(waits, context.DeadlineExceeded)))
}

// evenLoad returns the outcome of 8 s in which a quarter of the grants were of Java, and a quarter of
// callers of Go that wait, or of others.
func evenLoad(begin time.Time, perSecond int64, quarter string) *Outcome {
	o := &Outcome{
		Load: &Load{goBooks: ledger.New(nil), javaBooks: ledger.New(nil)},
		run:  span{begin, begin.Add(8 * time.Second)}, allTaken: true,
	}
	for at := begin; at.Before(o.run.to); at = at.Add(pause) {
		o.plain = append(o.plain, at)
	}
	for i := range 8 * perSecond {
		start := begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		grant := ledger.Grant{Start: start, End: start.Add(time.Millisecond), Permits: 1, Who: tries}
		switch i % 4 {
		case 0:
			grant.Who = "java"
			o.javaBooks.Granted(grant)
			continue
		case 1:
			grant.Who = quarter
		}
		o.goBooks.Granted(grant)
	}
	return o
}

// calm reports whether RequireCalm accepts an outcome, with two cut calls at most.
func calm(t *testing.T, o *Outcome) bool {
	t.Helper()
	recorder := &failureRecorder{TB: t}
	o.t = recorder
	defer func() {
		if r := recover(); r != nil && r != any(recorder) {
			panic(r)
		}
	}()
	o.RequireCalm(Most{cut: 2})
	return !recorder.failed
}
