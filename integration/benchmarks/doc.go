// Package benchmarks measures this library beside Redisson and other limiters, on one Redis that it
// starts itself. Its output is that of Go's benchmarks, which benchstat reads:
//
//	make bench                                  all, in rounds, written to docs/performance
//	make bench BENCH='FixedLoad|OneCaller'      a part, printed
//	go test ./integration/benchmarks -run '^$' -bench 'Granting/callers=256/library=(rratelimiter|script)$' -benchtime 0.5s
//
// A benchmark has one line for each library. All callers call during the whole benchmark time, except
// in FixedLoad, whose calls come at random times, and in OneCaller, whose libraries take turns.
// As with RunParallel, ns/op is that time by the decisions of all callers. The number of iterations
// says nothing. The order of the libraries is another one in each run, and ratios are those of one
// run.
//
// A benchmark fails if a call failed or had another answer than its load expects. It also fails if the
// permits in Redis are not those that the callers were granted.
//
// Another state of the library is measured by the same benchmarks where a workspace puts its
// checkout in place of this one:
//
//	git worktree add ../before COMMIT
//	sed -e '/^\t\.$/d; /^\t\.\/[^i]/d; s,=> \./,=> ../before/,' go.work > before.work
//	GOWORK=$PWD/before.work go test ./integration/benchmarks -run '^$' -bench Granting
package benchmarks
