package main

import (
	"fmt"
	"math"
	"strings"
)

// target is a ratio that this library is meant to reach.
type target struct {
	what    string
	got     float64
	atLeast bool
	want    float64
}

func (g target) met() bool {
	if g.atLeast {
		return g.got >= g.want
	}
	return g.got <= g.want
}

// peers of ours that are Go libraries and talk to Redis.
var goLibraries = append([]string{"rueidislimiter", "redis_rate", "throttled", "redisstore", "ulule"}, variants...)

// find returns the scenario of a part for so many callers, and whether it was measured.
func (r *results) find(part string, callers int, expect expectation) (runs, bool) {
	return r.findWith(endless, part, callers, expect)
}

// findWith is find for callers with contexts of that kind.
func (r *results) findWith(ctx contextKind, part string, callers int, expect expectation) (runs, bool) {
	for _, found := range r.runs {
		if found.part == part && found.load.callers == callers && found.load.expect == expect && found.load.context == ctx {
			return found, true
		}
	}
	return runs{}, false
}

// targets lists the measured targets.
func (r *results) targets() []target {
	var all []target
	add := func(atLeast bool, want, got float64, format string, args ...any) {
		if !math.IsNaN(got) {
			all = append(all, target{fmt.Sprintf(format, args...), got, atLeast, want})
		}
	}
	for _, expect := range []expectation{allGranted, allDenied} {
		for _, step := range []struct {
			callers int
			want    map[expectation]float64
		}{{1, alike(1)}, {2, alike(1.1)}, {4, alike(1.4)}, {8, alike(1.6)}, {16, alike(2)}, {64, alike(4)},
			{256, map[expectation]float64{allGranted: 14, allDenied: 12}}, {2048,
				map[expectation]float64{allGranted: 23, allDenied: 15}}} {
			run, ok := r.find(expect.String(), step.callers, expect)
			if !ok {
				continue
			}
			add(true, step.want[expect], run.ratio("ours", "script", rateOf).median,
				"%s, %s: decisions per second to Redisson's script", expect, callersText(step.callers))
			if step.callers == 256 {
				add(false, 1.0/30, run.ratio("ours", "script", func(f figures) float64 { return f.serverCPU }).median,
					"%s, 256 callers: server CPU to Redisson's script", expect)
				add(false, 1.0/5, run.ratio("ours", "script", p99Of).median, "%s, 256 callers: p99 to Redisson's script", expect)
				add(true, 12, run.toBest([]string{"jvm-sync", "jvm-async"}),
					"%s, 256 callers: decisions per second to Redisson on the JVM", expect)
			}
			want := map[int]float64{16: 1, 256: 7, 2048: 6}[step.callers]
			if want > 0 {
				add(true, want, run.toBest(goLibraries), "%s, %s: decisions per second to the best other Go library", expect,
					callersText(step.callers))
			}
		}
	}
	for _, expect := range []expectation{allGranted, allDenied} {
		for _, ctx := range []contextKind{deadline, cancellable} {
			if run, ok := r.findWith(ctx, "contexts", 1, expect); ok {
				add(true, 1, run.ratio("ours", "script", rateOf).median,
					"%s, %s, 1 caller: decisions per second to Redisson's script with the same context", ctx, expect)
			}
		}
	}
	if run, ok := r.find("mixed", 256, allGranted); ok {
		add(true, 10, run.ratio("ours", "script", rateOf).median,
			"1 to 3 permits a call, 256 callers: decisions per second to Redisson's script")
	}
	for _, run := range r.runs {
		if run.part == "names" {
			want := 1.25
			if run.load.warmup == 0 {
				want = 1 // first calls
			}
			add(true, want, run.ratio("ours", "script", rateOf).median, "%s: decisions per second to Redisson's script",
				run.title)
		}
	}
	for _, expect := range []expectation{allGranted, allDenied} {
		if run, ok := r.find("link", 16, expect); ok {
			add(true, 1, run.ratio("ours", "script", rateOf).median,
				"2 ms link, %s, 16 callers: decisions per second to Redisson's script", expect)
			add(false, 1.2, run.ratio("ours", "script", p50Of).median, "2 ms link, %s, 16 callers: p50 to Redisson's script",
				expect)
		}
		if run, ok := r.find("link", 2048, expect); ok {
			// No caller calls again before it has the answer.
			bound := float64(run.load.callers) / spreadOf(r.pings).median
			add(true, 0.4, run.spread("ours", rateOf).median/bound,
				"2 ms link, %s, 2048 callers: decisions per second to the bound, %s per second, one for each caller and round trip",
				expect, thousands(bound))
		}
	}
	if run, ok := r.find("denial cache", 256, allDenied); ok {
		add(true, 2e6, run.spread("cached", rateOf).median, "denial cache, 256 callers: denials per second")
		add(false, 2, run.spread("cached", func(f figures) float64 { return f.requests * f.rate }).median,
			"denial cache, 256 callers: Redis calls per second")
	}
	for i, c := range r.crowds {
		add(false, []float64{1.05, 0.05}[i], c.requests("ours").median,
			"waiting callers, permits returning %s: Redis calls per granted permit", c.name)
	}
	if r.script != nil {
		for i, c := range r.script.cases[:2] {
			add(false, []float64{0.88, 0.75}[i], r.script.ratio(c.name).median,
				"server time of one call, %s: to Redisson's script", c.name)
		}
	}
	r.observerTargets(add)
	r.leaseTargets(add)
	r.policyTargets(add)
	if r.expiry != nil {
		for _, c := range r.expiry.cases {
			add(false, 2, longest(c.ours).median, "%s grants expire at once, %s: longest call, ms",
				thousands(float64(r.expiry.grants)), c.name)
		}
	}
	if r.memory != nil {
		add(false, 1.0/50, r.memory.ratio().median, "Redis memory of a grant, 256 callers: to Redisson's script")
	}
	if r.allocations != nil {
		// A whole number, as Go's benchmarks count them: the runtime allocates a little now and
		// then.
		add(false, 6, math.Floor(r.allocations.most()), "allocations of one TryAcquire")
	}
	return all
}

// alike returns the target for granting and for denying.
func alike(want float64) map[expectation]float64 {
	return map[expectation]float64{allGranted: want, allDenied: want}
}

// toBest compares this library with whichever of the others has the most decisions per second.
func (r runs) toBest(others []string) float64 { return r.best("ours", others) }

// best compares a contender with whichever of the others has the most decisions per second.
func (r runs) best(key string, others []string) float64 {
	best, most := math.NaN(), 0.0
	for _, other := range others {
		if rate := r.spread(other, rateOf).median; r.refused(other) == "" && rate > most {
			best, most = r.ratio(key, other, rateOf).median, rate
		}
	}
	return best
}

func (e expectation) String() string {
	return []string{"granting", "denying"}[e]
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// longest is the longest call of each round, in milliseconds.
func longest(runs []expiryRun) spread {
	var took []float64
	for _, r := range runs {
		took = append(took, r.longest.Seconds()*1e3)
	}
	return spreadOf(took)
}

func targetTable(all []target) string {
	var t strings.Builder
	t.WriteString("| | target | measured | |\n| --- | --: | --: | --- |\n")
	for _, g := range all {
		sign, result := "at most", "reached"
		if g.atLeast {
			sign = "at least"
		}
		if !g.met() {
			result = "**missed**"
		}
		fmt.Fprintf(&t, "| %s | %s %s | %s | %s |\n", g.what, sign, short(g.want), short(g.got), result)
	}
	return t.String()
}
