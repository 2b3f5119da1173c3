package main

import "time"

// leaseScenarios measure what a lease saves: the round trip.
func leaseScenarios() []scenario {
	var all []scenario
	for _, slow := range []bool{false, true} {
		for _, callers := range []int{1, 16, 256, 2048} {
			title := "leased, " + callersText(callers)
			who := []string{"leased", "script", "xtime"}
			if slow {
				who = []string{"leased", "xtime"} // the target is the rate without the link
				title = "2 ms link, " + title
			}
			all = append(all, scenario{
				part: "leases", title: title, slow: slow, contenders: who,
				load: load{callers: callers, names: names(1), maxPermits: 1, limit: generous, expect: allGranted},
			})
		}
	}
	// A lease of a second follows the demand of the second before: it has its full size after some
	// of them.
	return append(all, scenario{
		part: "leases", title: "leased, 256 callers on 256 names",
		contenders: []string{"leased", "leased-long", "script", "xtime"},
		load: load{callers: 256, names: names(256), maxPermits: 1, limit: generous, expect: allGranted,
			warmup: 3 * time.Second},
	})
}

// leaseTargets returns its targets.
func (r *results) leaseTargets(add func(atLeast bool, want, got float64, format string, args ...any)) {
	near := make(map[int]runs)
	for _, run := range r.runs {
		if run.part != "leases" {
			continue
		}
		callers := run.load.callers
		switch {
		case run.slow:
			if fast, ok := near[callers]; ok {
				add(true, 0.5, run.spread("leased", rateOf).median/fast.spread("leased", rateOf).median,
					"%s: decisions per second to those without the link", run.title)
			}
		case len(run.load.names) > 1:
			// 256 leases of 10 ms are 50,000 calls a second: these would measure the server.
			add(true, 0.7, run.ratio("leased-long", "xtime", rateOf).median,
				"%s, for a second: decisions per second to x/time/rate", run.title)
		default:
			near[callers] = run
			want := 40.0
			if callers == 1 {
				want = 200
				add(false, 1, run.spread("leased", p50Of).median*1e6, "%s: p50, microseconds", run.title)
				add(false, 300, run.spread("leased", func(f figures) float64 { return f.requests * f.rate }).median,
					"%s: Redis calls per second", run.title)
			}
			add(true, want, run.ratio("leased", "script", rateOf).median, "%s: decisions per second to Redisson's script",
				run.title)
			add(false, 0.01, run.spread("leased", func(f figures) float64 { return f.allocs }).median,
				"%s: allocations per decision", run.title)
		}
	}
}
