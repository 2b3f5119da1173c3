package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/door"
	"github.com/rratelimiter/rratelimiter/limit"
)

// limits is what a request is limited by, of a rule or of one of its keys.
type limits struct {
	policies []limit.Policy // by a limiter of the rule's name and the key
	redisson []redisson
	names    []string // of both, as the file gives them
	refuse   bool     // everything, and Redis is not asked
	pass     bool     // everything

	// Made when they are used first: of many rules few are used at any time.
	described func() []limit.Policy                     // as clients are told of them
	describe  [2]func() func(door.Limiter) door.Limiter // by the kind of door
}

// redisson is a limiter that Java programs use too.
type redisson struct {
	name string
	rate *rratelimiter.Rate // that the file states, or nil
}

// limitFile is a limit as a file has it.
type limitFile struct {
	name     string
	policy   *yaml.Node
	rate     *yaml.Node
	permits  int64
	hasCount *yaml.Node
	per      *yaml.Node
	aligned  *yaml.Node
	cells    *yaml.Node
	in       *yaml.Node
	capacity *yaml.Node
	burst    *yaml.Node
	warmUp   *yaml.Node
	cold     *yaml.Node
	redisson *yaml.Node
	kind     *yaml.Node
	keep     *yaml.Node
}

var limitFields = map[string]field[limitFile]{
	"name": func(d *decoder, n *yaml.Node, l *limitFile) { l.name = d.printable(n) },
	"permits": func(d *decoder, n *yaml.Node, l *limitFile) {
		l.hasCount = n
		l.permits = d.number(n, 0, mostPermits, "a whole number of permits, 0 to 2^53")
	},
	"policy":      func(_ *decoder, n *yaml.Node, l *limitFile) { l.policy = n },
	"rate":        func(_ *decoder, n *yaml.Node, l *limitFile) { l.rate = n },
	"per":         func(_ *decoder, n *yaml.Node, l *limitFile) { l.per = n },
	"aligned":     func(_ *decoder, n *yaml.Node, l *limitFile) { l.aligned = n },
	"cells":       func(_ *decoder, n *yaml.Node, l *limitFile) { l.cells = n },
	"in":          func(_ *decoder, n *yaml.Node, l *limitFile) { l.in = n },
	"capacity":    func(_ *decoder, n *yaml.Node, l *limitFile) { l.capacity = n },
	"burst":       func(_ *decoder, n *yaml.Node, l *limitFile) { l.burst = n },
	"warm_up":     func(_ *decoder, n *yaml.Node, l *limitFile) { l.warmUp = n },
	"cold_factor": func(_ *decoder, n *yaml.Node, l *limitFile) { l.cold = n },
	"redisson":    func(_ *decoder, n *yaml.Node, l *limitFile) { l.redisson = n },
	"type":        func(_ *decoder, n *yaml.Node, l *limitFile) { l.kind = n },
	"keep_alive":  func(_ *decoder, n *yaml.Node, l *limitFile) { l.keep = n },
}

const mostPermits = 1 << 53

// printable reads a name that clients may see.
func (d *decoder) printable(n *yaml.Node) string {
	text, ok := d.text(n, "a text, a name")
	if ok && !isPrintable(text) {
		d.fail(n, "the name %q has bytes that are not printable ASCII, which headers cannot show", clipped(text))
		return ""
	}
	return text
}

func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// limits reads a limit or a list of them, with the policy that those have which name none.
func (d *decoder) limits(n *yaml.Node, policy string) *limits {
	all := &limits{}
	before := len(d.problems)
	if n.Kind == yaml.SequenceNode {
		d.list(n, "a limit", func(n *yaml.Node) { d.limit(n, policy, all) })
	} else {
		d.limit(n, policy, all)
	}
	if len(d.problems) > before {
		return nil
	}
	if !all.refuse {
		if err := d.checkTogether(all); err != nil {
			d.fail(n, "%s", reasonOf(err))
			return nil
		}
	}
	return all.ready()
}

// ready makes limits ready for requests.
func (l *limits) ready() *limits {
	l.described = sync.OnceValue(l.named)
	for _, kind := range []doorKind{httpDoor, grpcDoor} {
		l.describe[kind] = sync.OnceValue(func() func(door.Limiter) door.Limiter { return kind.describe(l.described()) })
	}
	return l
}

// named is the policies with their names.
func (l *limits) named() []limit.Policy {
	if l.refuse {
		return []limit.Policy{httplimit.Named("ban", nil)}
	}
	all := make([]limit.Policy, 0, len(l.policies)+len(l.redisson))
	for i, p := range l.policies {
		if l.names[i] != "" {
			p = httplimit.Named(l.names[i], p)
		}
		all = append(all, p)
	}
	for i, r := range l.redisson {
		var p limit.Policy
		if r.rate != nil && r.rate.Type == rratelimiter.Overall {
			p = limit.SlidingLog{Permits: r.rate.Permits, Interval: r.rate.Interval}
		}
		name := l.names[len(l.policies)+i]
		if name == "" {
			if name = r.name; !isPrintable(name) {
				name = "redisson"
			}
		}
		all = append(all, httplimit.Named(name, p))
	}
	return all
}

// limit reads a limit.
func (d *decoder) limit(n *yaml.Node, policy string, into *limits) {
	l := limitFile{}
	if n.Kind == yaml.ScalarNode {
		if l.rate = n; n.ShortTag() != "!!str" {
			d.wrong(n, "a text like 10/s, or a mapping")
			return
		}
	} else if !fields(d, n, limitFields, &l) {
		return
	}
	if l.redisson != nil {
		d.redisson(n, &l, into)
		return
	}
	for name, given := range map[string]*yaml.Node{"type": l.kind, "keep_alive": l.keep} {
		if given != nil {
			d.fail(given, "%s is for limits with redisson", name)
			return
		}
	}
	if l.policy != nil {
		var ok bool
		if policy, ok = d.text(l.policy, "a text, one of "+listOf(policies)); !ok {
			return
		}
	}
	read, ok := policies[policy]
	if !ok {
		d.fail(l.policy, "no policy %q, want one of %s", clipped(policy), listOf(policies))
		return
	}
	before := len(d.problems)
	rate, ok := d.rate(n, &l, policy == "calendar")
	if !ok {
		return
	}
	if rate.permits == 0 {
		into.refuse = true
	}
	p := read(d, &l, rate)
	d.unused(&l, policy)
	if len(d.problems) > before || rate.permits == 0 {
		return
	}
	if err := d.check(p); err != nil {
		d.fail(n, "%s", reasonOf(err))
		return
	}
	at := len(into.policies) // those of Redisson stand behind
	into.policies = append(into.policies, p)
	into.names = append(into.names[:at:at], append([]string{l.name}, into.names[at:]...)...)
}

// policies is how each policy is read, whose permits and interval are known, and which fields it has besides.
var policies = map[string]func(d *decoder, l *limitFile, r rate) limit.Policy{
	"fixed_window": func(d *decoder, l *limitFile, r rate) limit.Policy {
		return limit.FixedWindow{Permits: r.permits, Interval: r.per, Aligned: l.aligned != nil && d.boolean(l.aligned)}
	},
	"calendar": func(d *decoder, l *limitFile, r rate) limit.Policy {
		return limit.Calendar{Permits: r.permits, Unit: r.unit, In: d.location(l.in)}
	},
	"sliding_window": func(d *decoder, l *limitFile, r rate) limit.Policy {
		p := limit.SlidingWindow{Permits: r.permits, Interval: r.per}
		if l.cells != nil {
			n := d.number(l.cells, 2, 1000, "a whole number of cells, 2 to 1000")
			p.Cells = int(n)
		}
		return p
	},
	"sliding_log": func(_ *decoder, _ *limitFile, r rate) limit.Policy {
		return limit.SlidingLog{Permits: r.permits, Interval: r.per}
	},
	"token_bucket": func(d *decoder, l *limitFile, r rate) limit.Policy {
		return limit.TokenBucket{Capacity: d.capacity(l, r), Refill: r.permits, Interval: r.per}
	},
	"leaky_bucket": func(d *decoder, l *limitFile, r rate) limit.Policy {
		return limit.LeakyBucket{Capacity: d.capacity(l, r), Leak: r.permits, Interval: r.per}
	},
	"smooth": func(d *decoder, l *limitFile, r rate) limit.Policy {
		p := limit.Smooth{Permits: r.permits, Interval: r.per}
		if l.burst != nil {
			p.Burst = d.duration(l.burst)
		}
		if l.warmUp != nil {
			p.WarmUp = d.duration(l.warmUp)
		}
		if l.cold != nil {
			p.ColdFactor = d.fraction(l.cold, "a number, 1 to 1,000,000", func(x float64) bool { return x >= 1 && x <= 1e6 })
		}
		return p
	},
}

// own is the fields that only some policies have.
func (l *limitFile) own() map[string]*yaml.Node {
	return map[string]*yaml.Node{
		"aligned": l.aligned, "in": l.in, "cells": l.cells, "capacity": l.capacity, "burst": l.burst, "warm_up": l.warmUp, "cold_factor": l.cold,
	}
}

var policyFields = map[string][]string{
	"fixed_window": {"aligned"}, "calendar": {"in"}, "sliding_window": {"cells"}, "token_bucket": {"capacity"}, "leaky_bucket": {"capacity"},
	"smooth": {"burst", "warm_up", "cold_factor"},
}

// unused tells of fields that a policy does not have.
func (d *decoder) unused(l *limitFile, policy string) {
	if l.aligned == nil && l.in == nil && l.cells == nil && l.capacity == nil && l.burst == nil && l.warmUp == nil && l.cold == nil {
		return
	}
	own := l.own()
	for _, name := range policyFields[policy] {
		delete(own, name)
	}
	for name, n := range own {
		if n != nil {
			d.fail(n, "%s means nothing to %s", name, policy)
		}
	}
}

// capacity is a bucket's, by default as much as comes in an interval.
func (d *decoder) capacity(l *limitFile, r rate) int64 {
	if l.capacity == nil {
		return r.permits
	}
	n := d.number(l.capacity, 1, mostPermits, "a whole number of permits, 1 to 2^53")
	return n
}

// location is a place of the calendar.
func (d *decoder) location(n *yaml.Node) *time.Location {
	if n == nil {
		return nil
	}
	const want = "a text, a place like Europe/Berlin, or UTC"
	name, ok := d.text(n, want)
	if !ok {
		return nil
	}
	place, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		d.fail(n, "no time zone %q, want %s", clipped(name), want)
		return nil
	}
	if known, loaded := places.LoadOrStore(name, place); loaded {
		place, _ = known.(*time.Location)
	}
	return place
}

// places is the locations that were loaded, so that the same name is the same pointer and policies can be compared.
var places sync.Map

// redisson reads a limit of Redisson's.
func (d *decoder) redisson(n *yaml.Node, l *limitFile, into *limits) {
	name, ok := d.text(l.redisson, "a text, the name of a limiter")
	if !ok {
		return
	}
	if l.policy != nil {
		d.fail(l.policy, "a limit with redisson has no policy: its rate is in Redis, as a sliding log")
		return
	}
	d.unused(l, "redisson")
	r := redisson{name: name}
	if l.rate != nil || l.hasCount != nil || l.per != nil {
		rate, ok := d.rate(n, l, false)
		if !ok {
			return
		}
		r.rate = &rratelimiter.Rate{Permits: rate.permits, Interval: rate.per}
	}
	if l.kind != nil {
		switch text, ok := d.text(l.kind, "overall or per_client"); {
		case !ok:
			return
		case text == "per_client" && r.rate != nil:
			r.rate.Type = rratelimiter.PerClient
		case text != "overall" && text != "per_client":
			d.fail(l.kind, "%q, want overall or per_client", clipped(text))
			return
		}
	}
	if l.keep != nil && r.rate != nil {
		r.rate.KeepAlive = d.duration(l.keep)
	}
	if r.rate == nil && (l.kind != nil || l.keep != nil) {
		d.fail(n, "type and keep_alive are of a rate: state it too, or neither")
		return
	}
	if r.rate != nil {
		if err := checkRate(*r.rate); err != nil {
			d.fail(n, "%s", reasonOf(err))
			return
		}
	}
	into.redisson = append(into.redisson, r)
	into.names = append(into.names, l.name)
}

// Clients that have no Redis: with them limiters say what is wrong with their policies and names, and cannot do more.
var (
	nowhere        = rratelimiter.New(noRedis{mode: rueidis.ClientModeStandalone})
	nowhereCluster = rratelimiter.New(noRedis{mode: rueidis.ClientModeCluster})
)

type noRedis struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c noRedis) Mode() rueidis.ClientMode { return c.mode }

// checkName says what is wrong with what names begin with.
func checkName(domain string) error {
	return ended(limit.New(nowhereCluster, domain+":rule", limit.FixedWindow{Permits: 1, Interval: time.Second}).Take(over, 1))
}

// over is a context that has ended: a call with it asks nothing of Redis, and says what is wrong before it says that.
var over = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// check says what is wrong with a policy.
func (d *decoder) check(p limit.Policy) error {
	if d.right[p] {
		return nil
	}
	err := ended(limit.New(nowhere, "rule", p).Take(over, 1))
	if err == nil {
		d.right[p] = true
	}
	return err
}

// checkTogether says what is wrong with limits together: too many, or two that would count in the same key. Permits make no difference
// to that, so that what was looked at once, of any permits, need not be looked at again.
func (d *decoder) checkTogether(l *limits) error {
	n := len(l.policies) + len(l.redisson)
	if n <= mostPolicies && len(l.redisson) <= 1 {
		seen := true
		for i, p := range l.policies {
			for _, other := range l.policies[:i] {
				pair := [2]limit.Policy{kindOnly(other), kindOnly(p)}
				if seen = seen && d.apart[pair]; !seen {
					break
				}
			}
		}
		if seen {
			return nil
		}
	}
	var members []limit.Joinable
	if len(l.policies) > 0 {
		members = append(members, limit.New(nowhere, "rule", l.policies...))
	}
	for _, r := range l.redisson {
		members = append(members, nowhere.Limiter(r.name))
	}
	err := ended(limit.Join(members...).Take(over, 1))
	if err == nil {
		for i, p := range l.policies {
			for _, other := range l.policies[:i] {
				d.apart[[2]limit.Policy{kindOnly(other), kindOnly(p)}] = true
			}
		}
	}
	return err
}

// kindOnly is a policy without its permits.
func kindOnly(p limit.Policy) limit.Policy {
	switch p := p.(type) {
	case limit.FixedWindow:
		p.Permits = 0
		return p
	case limit.Calendar:
		p.Permits = 0
		return p
	case limit.SlidingWindow:
		p.Permits = 0
		return p
	case limit.SlidingLog:
		p.Permits = 0
		return p
	case limit.TokenBucket:
		p.Capacity, p.Refill = 0, 0
		return p
	case limit.LeakyBucket:
		p.Capacity, p.Leak = 0, 0
		return p
	case limit.Smooth:
		p.Permits = 0
		return p
	}
	return p
}

func checkRate(rate rratelimiter.Rate) error {
	return ended(nowhere.Limiter("rule").TrySetRate(over, rate))
}

// ended is the error of a call that had to fail for its context alone.
func ended[T any](_ T, err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// reasonOf is an error's text without what all of them begin with.
func reasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("%v: ", rratelimiter.ErrInvalidRate))
}
