package rules

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/door"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// limits is what a request is limited by, of a rule or of one of its keys.
type limits struct {
	policies []limit.Policy // by a limiter of the rule's name and the key
	redisson []redisson
	names    []string // of both, as the file gives them
	refuse   bool     // everything, and Redis is not asked
	pass     bool     // everything

	told [2]atomic.Pointer[description] // by the kind of door; made when it is used first: of many rules few are used at any time
}

// description is what clients are told of limits.
type description struct {
	policies []limit.Policy // with their names
	of       func(door.Limiter) door.Limiter
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
	count := len(all.policies) + len(all.redisson)
	switch {
	case all.refuse:
	case count > mostPolicies:
		d.fail(n, "%d limits, want %d at most", count, mostPolicies)
		return nil
	case !d.areApart(all):
		d.fail(n, "two of the limits would count in the same key: leave one out, or give it another policy or time")
		return nil
	}
	return all
}

// described is the limits as clients of a kind of door are told of them. Requests that come at once may each make it.
func (l *limits) described(kind doorKind) *description {
	if made := l.told[kind].Load(); made != nil {
		return made
	}
	made := &description{policies: l.named()}
	made.of = kind.describe(made.policies)
	l.told[kind].Store(made)
	return made
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
	if given := cmp.Or(l.kind, l.keep); given != nil {
		d.fail(given, "type and keep_alive are for limits with redisson")
		return
	}
	if l.policy != nil {
		var ok bool
		if policy, ok = d.text(l.policy, wantPolicy); !ok {
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
	if err := inside.CheckPolicy(p); err != nil {
		d.fail(n, "%s", reasonOf(err))
		return
	}
	at := len(into.policies) // those of Redisson stand behind
	into.policies = append(into.policies, p)
	into.names = slices.Insert(into.names, at, l.name)
}

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
