package outages

import (
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
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	failed := func(start, end float64, kind string) ledger.Failure {
		return ledger.Failure{Start: at(start), End: at(end), Kind: kind}
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
		"another error during a stall": {400, nil, []ledger.Failure{failed(3, 4, refused)},
			[]span{{at(3.5), at(3.8)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := &failureRecorder{TB: t}
			o := &Outcome{
				t: recorder, run: span{begin, at(8)}, faults: test.faults, stalls: test.stalls, allTaken: true,
				goBooks: ledger.New(nil), javaBooks: ledger.New(nil),
			}
			for i := range 8 * test.perSecond {
				start := begin.Add(time.Duration(i) * time.Second / time.Duration(test.perSecond))
				books := o.goBooks
				if i%4 == 0 {
					books = o.javaBooks
				}
				books.Granted(ledger.Grant{Start: start, End: start.Add(time.Millisecond), Permits: 1})
			}
			for _, failure := range test.failed {
				o.goBooks.FailedAt(failure)
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != any(recorder) {
						panic(r)
					}
				}()
				o.RequireCalm(most)
			}()
			require.Equal(t, test.calm, !recorder.failed)
		})
	}
}
