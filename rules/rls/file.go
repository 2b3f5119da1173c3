package rls

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

type domainFile struct {
	Domain, SlotBy string
	Descriptors    *rulefile.Node
}

type decoder struct{ rulefile.Decoder }

func parse(file string, text []byte) (*domain, []*rulefile.Problem) {
	d := &decoder{rulefile.Decoder{File: file, Lax: true}}
	made := &domain{file: file}
	if d.Load(text, yamlfile.Parse) {
		d.domain(made)
	}
	rulefile.Sort(d.Problems)
	for _, p := range d.Problems {
		p.Column = 0 // the reference reports none
	}
	return made, d.Problems
}

func (d *decoder) domain(into *domain) {
	file := domainFile{}
	d.Fields(d.Root, &file)
	into.name, into.slotBy = file.Domain, file.SlotBy
	if into.name == "" && len(d.Problems) == 0 {
		d.FailField(d.Root, "domain", "is empty, want a name that no other file has")
	}
	d.descriptors(file.Descriptors, &into.rules, 0, false)
}

// descriptors decodes the rules of one level. valueAbove reports that a rule above has
// value_to_metric.
func (d *decoder) descriptors(n *rulefile.Node, into *level, depth int, valueAbove bool) {
	var places, below []*rulefile.Node
	var rules []*rule
	d.List(n, "a list", func(n *rulefile.Node) {
		if depth >= maxEntries {
			const reason = "is nested %d descriptors deep, want at most %d, as many entries as a request may have"
			d.Fail(n, reason, depth+1, maxEntries)
			return
		}
		before := len(d.Problems)
		r, inner := d.rule(n)
		if len(d.Problems) == before {
			places, below, rules = append(places, n), append(below, inner), append(rules, r)
		}
	})
	for i, r := range rules {
		if err := into.add(r); err != nil {
			d.Fail(places[i], "%v", err)
			continue
		}
		r.dynamic = valueAbove || r.DetailedMetric || r.ValueToMetric
		d.descriptors(below[i], &r.below, depth+1, valueAbove || r.ValueToMetric)
	}
}

type ruleFile struct {
	ruleFields
	RateLimit, Limits, Descriptors *rulefile.Node
}

// rule decodes a descriptor, but not those below it, which it returns.
func (d *decoder) rule(n *rulefile.Node) (r *rule, below *rulefile.Node) {
	before := len(d.Problems)
	file := ruleFile{}
	d.Fields(n, &file)
	r = &rule{ruleFields: file.ruleFields, file: d.File, line: n.Line}
	if strings.Contains(r.id(), "*") {
		r.wild = strings.Split(r.id(), "*")
	} else if r.ShareThreshold {
		d.FailField(n, "share_threshold", "is set, but neither the value nor the key %q has a *", r.Key)
	}
	if !d.IsAbsent(file.RateLimit) {
		r.limits = append(r.limits, d.limit(file.RateLimit))
	}
	d.List(file.Limits, "a list", func(n *rulefile.Node) { r.limits = append(r.limits, d.limit(n)) })
	if len(d.Problems) == before && r.Key == "" {
		d.FailField(n, "key", "is empty, want the key of the request's entry")
	}
	if len(d.Problems) == before && file.Limits != nil {
		d.checkJoint(file.Limits, r.limits)
	}
	return r, file.Descriptors
}

// checkJoint checks that one call can decide the limits of one descriptor, with different keys of
// Redis.
func (d *decoder) checkJoint(n *rulefile.Node, limits []*rateLimit) {
	var policies []limit.Policy
	for _, l := range limits {
		if l.unlimited {
			d.Fail(n, "has an unlimited limit among several: remove it")
			return
		}
		if l.policy != nil {
			policies = append(policies, l.policy)
		}
	}
	if len(policies) > 1 {
		if err := limit.Validate(policies...); err != nil {
			d.Fail(n, "%s", rulefile.ReasonOf(err))
		}
	}
}

type limitFile struct {
	Name                                         string
	Unlimited                                    bool
	Replaces, RequestsPerUnit, Unit, Per, Policy *rulefile.Node
	Own                                          rulefile.PolicyFields
}

// limit decodes a limit. It returns nil for a problem.
func (d *decoder) limit(n *rulefile.Node) *rateLimit {
	file := limitFile{}
	before := len(d.Problems)
	d.Fields(n, &file)
	l := &rateLimit{name: file.Name, replaces: d.replaces(file.Replaces), unlimited: file.Unlimited}
	if slices.Contains(l.replaces, l.name) {
		d.FailField(n, "replaces", "names %q, which is this limit itself", l.name)
	}
	if len(d.Problems) > before {
		return nil
	}
	if l.unlimited {
		if stated := cmp.Or(file.Unit, file.Per, file.Policy); stated != nil {
			d.Fail(stated, "is %q, but the limit is unlimited: remove one of them", rulefile.Clip(stated.Value))
		}
		return l
	}
	kind := d.RatedPolicy(file.Policy, file.Own, fixedWindow)
	l.kind = kind.Name
	if len(d.Problems) > before {
		return nil
	}
	rate := policy.Rate{Fields: map[string]any{"aligned": true}}
	if file.RequestsPerUnit == nil {
		d.FailField(n, "requests_per_unit", "is missing; 0 refuses everything")
	}
	rate.Permits = d.Number(file.RequestsPerUnit, 0, math.MaxUint32,
		fmt.Sprintf("a whole number, 0 to %d", uint32(math.MaxUint32)))
	unit := d.interval(n, &file, kind.Unit, &rate)
	if len(d.Problems) > before {
		return nil
	}
	l.policy, l.interval = d.Policy(n, kind, rate, file.Own), rate.Interval
	if p, ok := policy.Of(l.policy); ok {
		l.most, l.onCredit = uint64(p.Most), p.Refill == policy.OnCredit
	}
	l.current = &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(rate.Permits), Unit: unit, Name: l.name}
	return l
}

func (d *decoder) replaces(n *rulefile.Node) (names []string) {
	d.List(n, "a list", func(n *rulefile.Node) {
		var file struct{ Name string }
		d.Fields(n, &file)
		if file.Name == "" && len(d.Problems) == 0 {
			d.FailField(n, "name", "is empty, want the name of the limit that is replaced")
		}
		names = append(names, file.Name)
	})
	return names
}

var calendarUnits = map[ratelimit.RateLimitResponse_RateLimit_Unit]limit.Unit{
	ratelimit.RateLimitResponse_RateLimit_DAY:   limit.Day,
	ratelimit.RateLimitResponse_RateLimit_WEEK:  limit.Week,
	ratelimit.RateLimitResponse_RateLimit_MONTH: limit.Month,
	ratelimit.RateLimitResponse_RateLimit_YEAR:  limit.Year,
}

// interval decodes unit and per. It returns the protocol's unit of that length, if there is one.
func (d *decoder) interval(n *rulefile.Node, file *limitFile, calendar bool,
	into *policy.Rate) (unit ratelimit.RateLimitResponse_RateLimit_Unit) {
	switch {
	case file.Unit != nil && file.Per != nil:
		d.Fail(file.Per, "is given beside unit: remove one of them")
	case file.Per != nil:
		var per rulefile.Duration
		d.Value(file.Per, &per)
		into.Interval = time.Duration(per)
		for u, length := range unitLengths {
			if length == into.Interval {
				unit = u
			}
		}
	default:
		name, _ := d.Text(file.Unit, "a text")
		number := ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
		unit = ratelimit.RateLimitResponse_RateLimit_Unit(number)
		if into.Interval = unitLengths[unit]; into.Interval == 0 {
			d.FailField(n, "unit", "is %q, want second, minute, hour, day, week, month or year; or per, for any interval",
				rulefile.Clip(name))
		}
	}
	if calendar && into.Interval > 0 {
		if into.Unit = int(calendarUnits[unit]); into.Unit == 0 || file.Per != nil {
			d.FailField(n, "unit", "is %q, want day, week, month or year for policy: calendar", strings.ToLower(unit.String()))
		}
	}
	return unit
}

func (m *metadata) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	if d.IsAbsent(n) {
		return
	}
	if n.Tag != rulefile.Mapping {
		d.Wrong(n, "a mapping")
		return
	}
	*m, _ = anything(d, n).(map[string]any)
}

func anything(d *rulefile.Decoder, n *rulefile.Node) any {
	switch n.Tag {
	case rulefile.Mapping:
		made := make(map[string]any)
		d.Pairs(n, func(name, value *rulefile.Node) { made[name.Value] = anything(d, value) })
		return made
	case rulefile.List:
		made := []any{}
		for _, value := range n.Content {
			made = append(made, anything(d, value))
		}
		return made
	case rulefile.Null:
		return nil
	case rulefile.Bool:
		return strings.EqualFold(n.Value, "true")
	case rulefile.Int:
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole
		}
	case rulefile.Float:
		if value, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			return value
		}
	}
	return n.Value
}
