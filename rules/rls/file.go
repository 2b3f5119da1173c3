package rls

import (
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules/internal/yamlfile"
)

type domainFile struct {
	Domain, SlotBy string
	Descriptors    *rulefile.Node
}

// places are the mappings of a file whose fields users misplace.
var places = []rulefile.Place{
	{Name: "the top of the file", Fields: domainFile{}},
	{Name: "the descriptor, beside rate_limit", Fields: ruleFile{}},
	{Name: "rate_limit", Fields: limitFile{}},
}

type decoder struct{ rulefile.Decoder }

func parse(file string, text []byte) (*domain, []*rulefile.Problem) {
	d := &decoder{rulefile.Decoder{File: file, Lax: true, Places: places}}
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
