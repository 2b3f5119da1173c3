package outages

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
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
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	failed := func(start, end float64, kind string) ledger.Failure {
		return ledger.Failure{Start: at(start), End: at(end), Kind: kind}
	}
	ended := func(who string, err error) []ledger.Failure {
		return []ledger.Failure{{Start: at(3), End: at(4), Kind: deadline, Err: err, Who: who}}
	}
	faults, most := []span{{at(3), at(4)}}, Most{cut: 2}
	once, late := failed(3, 4, cut), failed(3, 4, deadline)
	for name, test := range map[string]struct {
		perSecond int64
		faults    []span
		failed    []ledger.Failure
		stalls    []span
		calm      bool
	}{
		"a load":      {400, nil, nil, nil, true},
		"an idle one": {50, nil, nil, nil, false},
		"errors while it is broken": {400, faults,
			[]ledger.Failure{failed(2, 3.1, cut), failed(4.9, 6, cut)}, nil, true},
		"one more than may be":      {400, faults, []ledger.Failure{once, once, once}, nil, false},
		"one before":                {400, faults, []ledger.Failure{failed(2, 2.9, cut)}, nil, false},
		"one too long after":        {400, faults, []ledger.Failure{failed(5.1, 6, cut)}, nil, false},
		"one of another kind":       {400, faults, []ledger.Failure{failed(3, 4, refused)}, nil, false},
		"a deadline":                {400, faults, []ledger.Failure{late}, nil, false},
		"a deadline during a stall": {400, nil, []ledger.Failure{late}, []span{{at(3.5), at(3.8)}}, true},
		"a deadline without a stall": {400, nil, []ledger.Failure{late}, []span{{at(4.5), at(4.8)}},
			false},
		"a wait that others outran": {400, nil, ended(waits, context.DeadlineExceeded), nil, true},
		"a wait without an answer": {400, nil, ended(waits, fmt.Errorf("shop: %w", context.DeadlineExceeded)), nil,
			false},
		"a try without an answer": {400, nil, ended(tries, context.DeadlineExceeded), nil, false},
		"another error during a stall": {400, nil, []ledger.Failure{failed(3, 4, refused)},
			[]span{{at(3.5), at(3.8)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := evenLoad(begin, test.perSecond)
			o.faults, o.stalls = test.faults, test.stalls
			for _, failure := range test.failed {
				o.goBooks.FailedAt(failure)
			}
			require.Equal(t, test.calm, calm(t, o, most))
		})
	}
}

// Callers that only try got as much as before, and those that wait got nothing.
func TestOutcome_RequireCalm_WaitingCallersAreServed(t *testing.T) {
	begin := time.Now()
	o := evenLoad(begin, 400)
	grants := o.goBooks.Grants()
	for i := range grants {
		grants[i].Who = tries
	}
	o.goBooks = ledger.New(nil)
	o.goBooks.Granted(grants...)
	require.False(t, calm(t, o, Most{}))
	require.False(t, o.outrun(ledger.Failure{
		Start: begin.Add(time.Second), End: begin.Add(3 * time.Second), Err: context.DeadlineExceeded, Who: waits,
	}))
}

// evenLoad returns the outcome of 8 s in which a quarter of the grants were of Java, and a quarter of
// callers of Go that wait.
func evenLoad(begin time.Time, perSecond int64) *Outcome {
	o := &Outcome{
		Load: &Load{goBooks: ledger.New(nil), javaBooks: ledger.New(nil)},
		run:  span{begin, begin.Add(8 * time.Second)}, allTaken: true,
	}
	for i := range 8 * perSecond {
		start := begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		grant := ledger.Grant{Start: start, End: start.Add(time.Millisecond), Permits: 1}
		switch i % 4 {
		case 0:
			o.javaBooks.Granted(grant)
		case 1:
			grant.Who = waits
			o.goBooks.Granted(grant)
		default:
			grant.Who = tries
			o.goBooks.Granted(grant)
		}
	}
	return o
}

// calm reports whether RequireCalm accepts the outcome.
func calm(t *testing.T, o *Outcome, most Most) bool {
	t.Helper()
	recorder := &failureRecorder{TB: t}
	o.t = recorder
	defer func() {
		if r := recover(); r != nil && r != any(recorder) {
			panic(r)
		}
	}()
	o.RequireCalm(most)
	return !recorder.failed
}

// Only the error of an exhausted limiter is a denial.
func TestIsDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rratelimitertest.New(t).Client.Limiter(Name)
		require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Minute}))
		require.NoError(t, limiter.Acquire(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.True(t, isDenial(limiter.Acquire(ctx, 1)))

		<-ctx.Done()
		require.False(t, isDenial(limiter.Acquire(ctx, 1)), "its context ended before")
		require.False(t, isDenial(limiter.Acquire(t.Context(), 2)), "more than the rate")
		require.False(t, isDenial(nil))
	})
}
