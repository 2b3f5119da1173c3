package rules

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// limits are the limits of a rule, or of one of its keys.
type limits struct {
	policies []limit.Policy // of a limiter that is named for the rule and the key
	redisson []redisson
	names    []string // of both, from the file
	refuse   bool     // all requests, without a call to Redis
	pass     bool     // all requests

	descriptions [2]atomic.Pointer[description] // by the kind of middleware, made on first use
}

// description is what a middleware needs to know about limits.
type description struct {
	client   *rratelimiter.Client
	policies []limit.Policy // with their names
	of       func(guard.Limiter) guard.Limiter
	limiter  func(key string) *limit.Limiter // of the policies
}

// redisson is a limiter that is shared with Java programs.
type redisson struct {
	name string
	rate *rratelimiter.Rate // from the file, or nil
}

// limitFile is a limit in a file.
type limitFile struct {
	name                       string
	policy, rate, permits, per *rulefile.Node
	redisson, kind, keep       *rulefile.Node
	own                        map[string]*rulefile.Node // fields of single policies
}

var limitFields = func() map[string]field[limitFile] {
	known := map[string]field[limitFile]{
		"name":       func(d *decoder, n *rulefile.Node, l *limitFile) { l.name = d.printable(n) },
		"permits":    func(_ *decoder, n *rulefile.Node, l *limitFile) { l.permits = n },
		"policy":     func(_ *decoder, n *rulefile.Node, l *limitFile) { l.policy = n },
		"rate":       func(_ *decoder, n *rulefile.Node, l *limitFile) { l.rate = n },
		"per":        func(_ *decoder, n *rulefile.Node, l *limitFile) { l.per = n },
		"redisson":   func(_ *decoder, n *rulefile.Node, l *limitFile) { l.redisson = n },
		"type":       func(_ *decoder, n *rulefile.Node, l *limitFile) { l.kind = n },
		"keep_alive": func(_ *decoder, n *rulefile.Node, l *limitFile) { l.keep = n },
	}
	for _, name := range policy.Fields() {
		known[name] = func(_ *decoder, n *rulefile.Node, l *limitFile) {
			if l.own == nil {
				l.own = make(map[string]*rulefile.Node)
			}
			l.own[name] = n
		}
	}
	return known
}()

// printable decodes a name that clients may see.
func (d *decoder) printable(n *rulefile.Node) string {
	text, ok := d.Text(n, "a text, a name")
	if ok && !rulefile.IsPrintable(text) {
		d.Fail(n, "the name %q has bytes that are not printable ASCII, which headers cannot show", rulefile.Clip(text))
		return ""
	}
	return text
}

// limits decodes a limit or a list of them. policy is the default for limits that name none.
func (d *decoder) limits(n *rulefile.Node, policy string) *limits {
	all := &limits{}
	before := len(d.Problems)
	if n.Tag == rulefile.List {
		d.List(n, "a limit", func(n *rulefile.Node) { d.limit(n, policy, all) })
	} else {
		d.limit(n, policy, all)
	}
	if len(d.Problems) > before {
		return nil
	}
	count := len(all.policies) + len(all.redisson)
	switch {
	case all.refuse:
	case count > mostPolicies:
		d.Fail(n, "%d limits, want %d at most", count, mostPolicies)
		return nil
	case !all.areApart():
		d.Fail(n, "two of the limits would count in the same key: leave one out, or give it another policy or time")
		return nil
	}
	return all
}

// described returns the description of a rule's limits. Concurrent requests may each make one.
func (l *limits) described(o *opener, r *rule) *description {
	if made := l.descriptions[o.protocol].Load(); made != nil && made.client == o.client {
		return made
	}
	made := &description{client: o.client, policies: l.named()}
	made.of = o.protocol.describe(made.policies)
	if r.key == nil {
		all := limit.New(o.client, r.prefix, l.policies...)
		made.limiter = func(string) *limit.Limiter { return all }
	} else {
		keyed := limit.NewKeyed(o.client, r.prefix, l.policies...)
		made.limiter = func(key string) *limit.Limiter { return keyed.Limiter(guard.Key(key)) }
	}
	l.descriptions[o.protocol].Store(made)
	return made
}

// named returns the policies with their names.
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
			if name = r.name; !rulefile.IsPrintable(name) {
				name = "redisson"
			}
		}
		all = append(all, httplimit.Named(name, p))
	}
	return all
}

// limit decodes a limit.
func (d *decoder) limit(n *rulefile.Node, policy string, into *limits) {
	l := limitFile{}
	if n.IsScalar() {
		if l.rate = n; n.Tag != rulefile.Text {
			d.Wrong(n, "a text like 10/s, or a mapping")
			return
		}
	} else if !rulefile.Fields(d, n, limitFields, &l) {
		return
	}
	if l.redisson != nil {
		d.redisson(n, &l, into)
		return
	}
	if given := cmp.Or(l.kind, l.keep); given != nil {
		d.Fail(given, "type and keep_alive are for limits with redisson")
		return
	}
	if l.policy != nil {
		var ok bool
		if policy, ok = d.PolicyName(l.policy); !ok {
			return
		}
	}
	rate, ok := d.rate(n, &l, rulefile.HasUnit(policy))
	if !ok {
		return
	}
	if rate.permits == 0 {
		into.refuse = true
	}
	p := d.Policy(n, &rulefile.Limit{Policy: policy, Permits: rate.permits, Per: rate.per, Unit: rate.unit, Fields: l.own})
	if p == nil {
		return
	}
	at := len(into.policies) // the names of Redisson's limiters follow
	into.policies = append(into.policies, p)
	into.names = slices.Insert(into.names, at, l.name)
}

// redisson decodes a limit with a limiter of Redisson's.
func (d *decoder) redisson(n *rulefile.Node, l *limitFile, into *limits) {
	name, ok := d.Text(l.redisson, "a text, the name of a limiter")
	if !ok {
		return
	}
	if l.policy != nil {
		d.Fail(l.policy, "a limit with redisson has no policy: its rate is in Redis, as a sliding log")
		return
	}
	d.Unused(l.own, "redisson")
	r := redisson{name: name}
	if l.rate != nil || l.permits != nil || l.per != nil {
		rate, ok := d.rate(n, l, false)
		if !ok {
			return
		}
		r.rate = &rratelimiter.Rate{Permits: rate.permits, Interval: rate.per}
	}
	if l.kind != nil {
		kind, ok := d.OneOf(l.kind, "overall", "per_client")
		if !ok {
			return
		}
		if kind == "per_client" && r.rate != nil {
			r.rate.Type = rratelimiter.PerClient
		}
	}
	if l.keep != nil && r.rate != nil {
		r.rate.KeepAlive = d.Duration(l.keep)
	}
	if r.rate == nil && (l.kind != nil || l.keep != nil) {
		d.Fail(n, "type and keep_alive are of a rate: state it too, or neither")
		return
	}
	if r.rate != nil {
		if err := checkRate(*r.rate); err != nil {
			d.Fail(n, "%s", rulefile.ReasonOf(err))
			return
		}
	}
	into.redisson = append(into.redisson, r)
	into.names = append(into.names, l.name)
}
