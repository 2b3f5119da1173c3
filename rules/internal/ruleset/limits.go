package ruleset

import (
	"cmp"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

// limits are the limits of a rule, or of one of its keys.
type limits struct {
	policies []limit.Policy // of a limiter that is named for the rule and the key
	redisson []redisson
	ban      bool // all requests, without a call to Redis
	pass     bool // all requests
}

// redisson is a limiter that is shared with Java programs.
type redisson struct {
	name  string
	rate  *rratelimiter.Rate // that the file states for the limiter, in this rule or another; or nil
	named limit.Policy       // a description of it
}

// StatedRate is the rate of a Redisson limiter, and the first rule that states it.
type StatedRate struct {
	Limiter string
	Rate    rratelimiter.Rate
	Rule    string
}

// limits decodes a limit or a list of them. kind is the policy of limits that name none.
func (d *decoder) limits(n *rulefile.Node, kind string) *limits {
	all := &limits{}
	before := len(d.Problems)
	if n.Tag == rulefile.List {
		d.List(n, "a limit", func(n *rulefile.Node) { d.limit(n, kind, all) })
	} else {
		d.limit(n, kind, all)
	}
	if len(d.Problems) > before {
		return nil
	}
	count := len(all.policies) + len(all.redisson)
	switch {
	case all.ban:
	case count > policy.MaxJoined:
		d.Fail(n, "%d limits, want %d at most", count, policy.MaxJoined)
		return nil
	case count > 1 && !all.areApart():
		d.Fail(n, "two of the limits would count in the same key: leave one out, or give it another policy or time")
		return nil
	}
	return all
}

func (l *limits) allPolicies() []limit.Policy {
	if l.ban {
		return []limit.Policy{limit.Named("ban", nil)}
	}
	all := slices.Clone(l.policies)
	for _, r := range l.redisson {
		all = append(all, r.named)
	}
	return all
}

func (d *decoder) limit(n *rulefile.Node, kind string, into *limits) {
	file := limitFile{}
	if n.IsScalar() {
		if file.Rate = n; n.Tag != rulefile.Text {
			d.Wrong(n, "a text like 10/s, or a mapping")
			return
		}
	} else if !d.Fields(n, &file) {
		return
	}
	name, ok := d.Text(file.Name, "a text, a name")
	if ok && !rulefile.IsPrintable(name) {
		d.Fail(file.Name, "the name %q has bytes that are not printable ASCII, which headers cannot show", rulefile.Clip(name))
		name = ""
	}
	if file.Redisson != nil {
		into.redisson = append(into.redisson, d.redisson(n, &file, name))
		return
	}
	if stated := cmp.Or(file.Type, file.KeepAlive); stated != nil {
		d.Fail(stated, "type and keep_alive are for limits with redisson")
		return
	}
	named, ok := d.PolicyKind(file.Policy, file.Own, kind)
	if !ok {
		return
	}
	rate := policy.Rate{Permits: 1}
	if stated := cmp.Or(file.Rate, file.Permits, file.Per); !named.NoRate {
		rate, ok = d.rate(n, &file, named.Unit)
	} else if stated != nil {
		d.Fail(stated, "policy %s has no rate: leave out rate, permits and per", named.Name)
		return
	}
	if !ok {
		return
	}
	into.ban = into.ban || rate.Permits == 0
	if p := d.Policy(n, named, rate, file.Own); p != nil {
		if name != "" {
			p = limit.Named(name, p)
		}
		into.policies = append(into.policies, p)
	}
}

// redisson decodes a limit with a limiter of Redisson's. It is shown under its own name, if that is
// printable, unless the limit has one.
func (d *decoder) redisson(n *rulefile.Node, file *limitFile, shown string) (r redisson) {
	r.name, _ = d.Text(file.Redisson, "a text, the name of a limiter")
	if file.Policy != nil {
		d.Fail(file.Policy, "a limit with redisson has no policy: its rate is in Redis, as a sliding log")
	}
	d.Unused(file.Own, "redisson")
	var log limit.Policy
	if file.Rate != nil || file.Permits != nil || file.Per != nil {
		stated, ok := d.rate(n, file, false)
		rate := rratelimiter.Rate{Permits: stated.Permits, Interval: stated.Interval}
		if file.KeepAlive != nil {
			var keepAlive rulefile.Duration
			d.Value(file.KeepAlive, &keepAlive)
			rate.KeepAlive = time.Duration(keepAlive)
		}
		if d.OneOf(file.Type, "overall", "per_client") == "per_client" {
			rate.Type = rratelimiter.PerClient
		} else {
			log = limit.SlidingLog{Permits: rate.Permits, Interval: rate.Interval}
		}
		if err := checkRate(rate); ok && err != nil {
			d.Fail(n, "%s", rulefile.ReasonOf(err))
		}
		r.rate = &rate
	} else if file.Type != nil || file.KeepAlive != nil {
		d.Fail(n, "type and keep_alive are of a rate: state it too, or neither")
	}
	if shown == "" && rulefile.IsPrintable(r.name) {
		shown = r.name
	}
	r.named = limit.Named(cmp.Or(shown, "redisson"), log)
	return r
}

// areApart reports whether no two limits use the same key of Redis.
func (l *limits) areApart() bool {
	if len(l.policies) > 0 && limit.Validate(l.policies...) != nil {
		return false
	}
	if len(l.redisson) < 2 {
		return true
	}
	var members []limit.Joinable
	for _, r := range l.redisson {
		members = append(members, offline.Limiter(r.name))
	}
	return outage.CheckLimiter(limit.Join(members...)) == nil
}

// Clients without Redis, whose limiters only validate policies and names.
var (
	offline        = rratelimiter.New(noRedis{mode: rueidis.ClientModeStandalone})
	offlineCluster = rratelimiter.New(noRedis{mode: rueidis.ClientModeCluster})
)

type noRedis struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c noRedis) Mode() rueidis.ClientMode { return c.mode }

func checkRate(rate rratelimiter.Rate) error {
	return outage.CheckLimiter(offline.Limiter("rule", rratelimiter.InitialRate(rate)))
}

// rate decodes the permits and the time of a limit: rate, or permits and per.
func (d *decoder) rate(n *rulefile.Node, file *limitFile, calendar bool) (r policy.Rate, ok bool) {
	const want = "give rate, " + notation.WantRate + ", or both permits and per"
	isPair := file.Permits != nil && file.Per != nil
	var per notation.Per
	var err error
	switch {
	case file.Rate != nil && (file.Permits != nil || file.Per != nil):
		d.Fail(n, "rate and permits or per: "+want)
		return r, false
	case file.Rate == nil && !isPair:
		d.Fail(n, "no rate: "+want)
		return r, false
	case isPair:
		n = file.Per
		text, isText := d.Text(n, "a text like second, 30s or day")
		if !isText {
			return r, false
		}
		r.Permits = d.Number(file.Permits, 0, notation.MaxPermits, "a whole number of permits, 0 to 2^53")
		per, err = notation.ParsePer(rulefile.Clip(text), calendar)
	default:
		n = file.Rate
		text, isText := d.Text(n, notation.WantRate)
		if !isText {
			return r, false
		}
		r.Permits, per, err = notation.ParseRate(rulefile.Clip(text), calendar)
	}
	if err != nil {
		d.Fail(n, "%v", err)
		return r, false
	}
	r.Interval, r.Unit = per.Interval, per.Unit
	return r, true
}

// limitFile is a limit in a file.
type limitFile struct {
	Name, Policy, Rate, Permits, Per, Redisson, Type, KeepAlive *rulefile.Node

	Own rulefile.PolicyFields
}
