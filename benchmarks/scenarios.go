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

// scenario is a load, and those who are measured under it.
type scenario struct {
	part  string
	title string
	load  load
	slow  bool // over the link
	sides []string
}

// runs are the figures of every side of a scenario, by round.
type runs struct {
	scenario
	figures map[string][]figures
}

var (
	references = []string{"ours", "script", "empty"}
	everybody  = []string{
		"ours", "off", "script", "jvm-sync", "jvm-async", "rueidislimiter", "redis_rate", "throttled", "redisstore", "ulule", "empty", "xtime",
	}
)

// scenarios lists what is measured, in the order of the report.
func scenarios() []scenario {
	var all []scenario
	for _, kind := range []struct {
		part   string
		limit  limit
		expect expectation
	}{{"granting", generous, allGranted}, {"denying", scarce, allDenied}} {
		for _, callers := range []int{1, 2, 4, 8, 16, 64, 256, 2048} {
			who := references
			if slices.Contains([]int{1, 16, 256, 2048}, callers) {
				who = everybody
			}
			all = append(all, scenario{
				part: kind.part, title: fmt.Sprintf("%s, %d callers", kind.part, callers), sides: who,
				load: load{callers: callers, names: names(1), maxPermits: 1, limit: kind.limit, expect: kind.expect},
			})
		}
	}
	for _, kind := range []struct {
		limit  limit
		expect expectation
		name   string
	}{{generous, allGranted, "granting"}, {scarce, allDenied, "denying"}} {
		for _, callers := range []int{16, 256, 2048} {
			all = append(all, scenario{
				part: "link", title: fmt.Sprintf("2 ms link, %s, %d callers", kind.name, callers), slow: true, sides: references,
				load: load{callers: callers, names: names(1), maxPermits: 1, limit: kind.limit, expect: kind.expect},
			})
		}
	}
	all = append(all,
		scenario{
			part: "mixed", title: "1 to 3 permits a call, 256 callers", sides: []string{"ours", "off", "script"},
			load: load{callers: 256, names: names(1), maxPermits: 3, limit: generous, expect: allGranted},
		},
		scenario{
			part: "edge", title: "a limit of 1,000 permits in 100 ms, 256 callers", sides: []string{"ours", "off", "script"},
			load: load{callers: 256, names: names(1), maxPermits: 1, limit: limit{1000, 100 * time.Millisecond}, expect: someDenied},
		},
		scenario{
			part: "names", title: "10,000 names, 256 callers", sides: everybody,
			load: load{callers: 256, names: names(10_000), maxPermits: 1, limit: generous, expect: allGranted},
		},
	)
	return all
}

// plan is what of all that is measured in this run; empty lists mean everything.
type plan struct {
	only, parts, callers []string
}

func (p plan) check() error {
	for _, key := range p.only {
		if !slices.ContainsFunc(sides, func(s side) bool { return s.key == key }) {
			return fmt.Errorf("-only %s: no such side, there are %s", key, keys(sides))
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
		s.sides = slices.DeleteFunc(slices.Clone(s.sides), func(key string) bool {
			return len(p.only) > 0 && !slices.Contains(p.only, key)
		})
		if len(s.sides) > 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// compare gives every side its turn in each round. Who begins changes from round to round.
func (b *bench) compare(ctx context.Context, s scenario) (runs, error) {
	r := runs{s, make(map[string][]figures)}
	for round := range b.rounds {
		for i := range s.sides {
			key := s.sides[(round+i)%len(s.sides)]
			side := sides[slices.IndexFunc(sides, func(s side) bool { return s.key == key })]
			l := s.load
			l.addr = b.redis.Addr()
			if s.slow {
				l.addr = b.link.addr
			}
			f, err := b.measure(ctx, side, l)
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

func (p plan) run(ctx context.Context, b *bench) error {
	var done []runs
	for _, s := range p.scenarios() {
		fmt.Fprintf(os.Stderr, "%s ...\n", s.title)
		r, err := b.compare(ctx, s)
		if err != nil {
			return err
		}
		done = append(done, r)
		fmt.Println(r.table())
	}
	if p.includes("script") {
		fmt.Fprintln(os.Stderr, "the script's time ...")
		times, err := b.scriptTimes(ctx)
		if err != nil {
			return err
		}
		fmt.Println(times.table())
	}
	return nil
}

func partNames() []string {
	var parts []string
	for _, s := range scenarios() {
		if !slices.Contains(parts, s.part) {
			parts = append(parts, s.part)
		}
	}
	return append(parts, "script")
}

func (s side) isRRateLimiter() bool {
	return slices.Contains([]string{"ours", "off", "script", "jvm-sync", "jvm-async"}, s.key)
}

func (s side) inOtherProcess() bool { return strings.HasPrefix(s.key, "jvm-") }
