package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scenario is a load, and the contenders that are measured under it.
type scenario struct {
	part       string
	title      string
	load       load
	slow       bool // over the link
	contenders []string
}

// runs are the figures of every contender of a scenario, by round.
type runs struct {
	scenario
	figures map[string][]figures
}

var (
	references    = []string{"ours", "script", "empty"}
	allContenders = []string{
		"ours", "off", "script", "jvm-sync", "jvm-async",
		"rueidislimiter", "rueidislimiter-pool", "redis_rate", "redis_rate-auto", "throttled", "redisstore", "ulule",
		"ulule-auto",
		"empty", "xtime",
	}
	// tuned are peers in ways that are for many callers alone, variants all ways that are not a
	// peer's default.
	tuned    = []string{"rueidislimiter-delay", "redis_rate-many", "redis_rate-delay", "ulule-many", "ulule-delay"}
	variants = slices.Concat([]string{"rueidislimiter-pool"}, autoPipelined, tuned)
)

// together are ways to send simultaneous calls in one pipeline: a lone caller has none.
var autoPipelined = []string{"redis_rate-auto", "ulule-auto"}

// allOf returns the contenders that are measured with so many callers. If their requests are
// granted, throttled is not measured with the most callers. Its callers compare and swap one value,
// and only one succeeds at a time. A run would have to wait for a minute until each has succeeded.
func allOf(callers int, expect expectation) []string {
	who := slices.Clone(allContenders)
	if callers == 1 {
		who = slices.DeleteFunc(who, func(key string) bool { return slices.Contains(autoPipelined, key) })
	}
	if callers >= 256 {
		who = append(who, tuned...)
	}
	if callers == 2048 && expect == allGranted {
		who = slices.DeleteFunc(who, func(key string) bool { return key == "throttled" })
	}
	return who
}

// scenarios lists the scenarios in the order of the report.
func scenarios() []scenario {
	var all []scenario
	for _, kind := range []struct {
		limit  limit
		expect expectation
	}{{generous, allGranted}, {scarce, allDenied}} {
		for _, callers := range []int{1, 2, 4, 8, 16, 64, 256, 2048} {
			who := references
			if slices.Contains([]int{1, 16, 256, 2048}, callers) {
				who = allOf(callers, kind.expect)
			}
			all = append(all, scenario{
				part: kind.expect.String(), title: kind.expect.String() + ", " + callersText(callers), contenders: who,
				load: load{callers: callers, names: names(1), maxPermits: 1, limit: kind.limit, expect: kind.expect},
			})
		}
	}
	for _, kind := range []struct {
		limit  limit
		expect expectation
	}{{generous, allGranted}, {scarce, allDenied}} {
		for _, callers := range []int{16, 256, 2048} {
			all = append(all, scenario{
				part: "link", title: fmt.Sprintf("2 ms link, %s, %d callers", kind.expect, callers), slow: true,
				contenders: references,
				load:       load{callers: callers, names: names(1), maxPermits: 1, limit: kind.limit, expect: kind.expect},
			})
		}
	}
	for _, kind := range []struct {
		limit  limit
		expect expectation
	}{{generous, allGranted}, {scarce, allDenied}} {
		for _, ctx := range []contextKind{deadline, cancellable} {
			for _, callers := range []int{1, 4} {
				all = append(all, scenario{
					part: "contexts", title: fmt.Sprintf("%s, %s, %s", ctx, kind.expect, callersText(callers)), contenders: references,
					load: load{callers: callers, names: names(1), maxPermits: 1, limit: kind.limit, expect: kind.expect, context: ctx},
				})
			}
		}
	}
	all = append(all,
		scenario{
			part: "denial cache", title: "denying, 256 callers", contenders: []string{"ours", "cached", "script"},
			load: load{callers: 256, names: names(1), maxPermits: 1, limit: scarce, expect: allDenied},
		},
		scenario{
			part: "mixed", title: "1 to 3 permits a call, 256 callers", contenders: []string{"ours", "off", "script"},
			load: load{callers: 256, names: names(1), maxPermits: 3, limit: generous, expect: allGranted},
		},
		scenario{
			part: "names", title: "10,000 names, 256 callers",
			contenders: slices.Insert(allOf(256, allGranted), 1, "ours-delay"),
			load: load{callers: 256, names: names(10_000), maxPermits: 1, limit: generous, expect: allGranted,
				warmup: warmupOf(10_000)},
		},
		scenario{
			part: "names", title: "10,000 new names, 256 callers", contenders: references,
			load: load{callers: 256, names: names(10_000), maxPermits: 1, limit: generous, expect: allGranted},
		},
	)
	all = append(all, observedScenario())
	return slices.Concat(all, leaseScenarios(), policyScenarios())
}

// warmupOf returns the warm-up of a scenario with so many names, if it is longer than the usual one.
// It is long enough for a call of each name. The first call of a name costs more than the others.
func warmupOf(names int) time.Duration {
	if names < 10_000 {
		return 0
	}
	return 1500 * time.Millisecond
}

// plan selects the measurements of this run; empty lists mean all.
type plan struct {
	only, parts, callers []string
	grants               int // how many expire at once, and how many the memory is measured of
}

func (p plan) check() error {
	for _, key := range p.only {
		if !slices.ContainsFunc(contenders, func(s contender) bool { return s.key == key }) {
			return fmt.Errorf("-only %s: no such contender, there are %s", key, keys(contenders))
		}
	}
	for _, part := range p.parts {
		if !slices.Contains(partNames(), part) {
			return fmt.Errorf("-part %s: no such part, there are %s", part, strings.Join(partNames(), ", "))
		}
	}
	return nil
}

func (p plan) includes(part string) bool { return len(p.parts) == 0 || slices.Contains(p.parts, part) }

func (p plan) scenarios() []scenario {
	var chosen []scenario
	for _, s := range scenarios() {
		if !p.includes(s.part) || len(p.callers) > 0 && !slices.Contains(p.callers, strconv.Itoa(s.load.callers)) {
			continue
		}
		s.contenders = slices.DeleteFunc(slices.Clone(s.contenders), func(key string) bool {
			return len(p.only) > 0 && !slices.Contains(p.only, key)
		})
		if len(s.contenders) > 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// These scenarios have so many times as many rounds. A lone caller mostly waits for the host to run
// a process. That time differs more from second to second than the contenders do from each other.
// With very many names the contenders are near each other.
const loneRounds, namesRounds = 4, 2

// compare measures all contenders in turn in each round. The first one changes from round to round.
func (b *bench) compare(ctx context.Context, s scenario) (runs, error) {
	r := runs{s, make(map[string][]figures)}
	rounds := b.rounds
	switch {
	case s.load.callers == 1:
		rounds *= loneRounds
	case s.part == "names":
		rounds *= namesRounds
	}
	for round := range rounds {
		if s.slow {
			took, err := b.ping(ctx)
			if err != nil {
				return r, err
			}
			b.pings = append(b.pings, took.Seconds())
		}
		for i := range s.contenders {
			key := s.contenders[(round+i)%len(s.contenders)]
			chosen := contenders[slices.IndexFunc(contenders, func(s contender) bool { return s.key == key })]
			l := s.load
			l.addr = b.redis.Addr()
			if s.slow {
				l.addr = b.link.addr
			}
			f, err := b.measure(ctx, chosen, l)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return r, fmt.Errorf("%s: %w", s.title, err)
			}
			r.figures[key] = append(r.figures[key], f)
		}
	}
	return r, nil
}

// run makes the measurements of the plan.
func (p plan) run(ctx context.Context, b *bench) (*results, error) {
	r := &results{Rounds: b.rounds, Seconds: b.length.Seconds(), Warmup: b.warmup.Seconds(),
		Grants: thousands(float64(p.grants))}
	for _, s := range p.scenarios() {
		progress(s.title)
		compared, err := b.compare(ctx, s)
		if err != nil {
			return r, err
		}
		r.runs = append(r.runs, compared)
	}
	for _, part := range parts {
		if !p.includes(part.name) {
			continue
		}
		progress(part.name)
		if err := part.measure(ctx, b, p, r); err != nil {
			return r, err
		}
	}
	var err error
	r.Machine, err = b.machine(ctx)
	r.pings = b.pings
	return r, err
}

// parts are the measurements besides scenarios.
var parts = []struct {
	name    string
	measure func(ctx context.Context, b *bench, p plan, r *results) error
}{
	{"crowd", func(ctx context.Context, b *bench, p plan, r *results) (err error) {
		r.crowds, err = b.crowds(ctx, p.only)
		return err
	}},
	{"script", func(ctx context.Context, b *bench, _ plan, r *results) error {
		times, err := b.scriptTimes(ctx)
		r.script = &times
		return err
	}},
	{"expiry", func(ctx context.Context, b *bench, p plan, r *results) error {
		found, err := b.expiry(ctx, p.grants)
		r.expiry = &found
		return err
	}},
	{"memory", func(ctx context.Context, b *bench, p plan, r *results) (err error) {
		r.memory, err = b.memory(ctx, int64(p.grants))
		return err
	}},
	{"allocations", func(ctx context.Context, b *bench, _ plan, r *results) (err error) {
		r.allocations, err = b.allocations(ctx)
		return err
	}},
}

func progress(what string) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), what)
}

func partNames() []string {
	var all []string
	for _, s := range scenarios() {
		if !slices.Contains(all, s.part) {
			all = append(all, s.part)
		}
	}
	for _, part := range parts {
		all = append(all, part.name)
	}
	return all
}

func (s contender) isRRateLimiter() bool {
	return slices.Contains([]string{"ours", "cached", "observed", "leased", "leased-long", "off", "script", "jvm-sync",
		"jvm-async"}, s.key)
}

func (s contender) inOtherProcess() bool { return strings.HasPrefix(s.key, "jvm-") }
