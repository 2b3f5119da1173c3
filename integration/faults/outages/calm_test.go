package outages

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

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
