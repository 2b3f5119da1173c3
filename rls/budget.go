package rls

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"

	"github.com/rratelimiter/rratelimiter/limit"
)

// fixedWindow is the policy of a limit without one.
const fixedWindow = "fixed_window"

// unitLengths are the lengths of the protocol's units.
var unitLengths = map[ratelimit.RateLimitResponse_RateLimit_Unit]time.Duration{
	ratelimit.RateLimitResponse_RateLimit_SECOND: time.Second,
	ratelimit.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	ratelimit.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	ratelimit.RateLimitResponse_RateLimit_DAY:    24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_WEEK:   7 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_MONTH:  30 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_YEAR:   365 * 24 * time.Hour,
}

var calendarUnits = map[ratelimit.RateLimitResponse_RateLimit_Unit]limit.Unit{
	ratelimit.RateLimitResponse_RateLimit_DAY:   limit.Day,
	ratelimit.RateLimitResponse_RateLimit_WEEK:  limit.Week,
	ratelimit.RateLimitResponse_RateLimit_MONTH: limit.Month,
	ratelimit.RateLimitResponse_RateLimit_YEAR:  limit.Year,
}

// budget is the policy of a limit, with its properties.
type budget struct {
	kind   string
	policy limit.Policy // nil grants nothing
	length time.Duration
	most   uint64 // the largest grant at once

	onCredit bool // a request may take more than is free
}

// windows returns a budget of aligned windows, as the protocol's units define them.
func windows(permits uint64, length time.Duration) budget {
	if permits == 0 {
		return budget{length: length}
	}
	p := limit.FixedWindow{Permits: int64(permits), Interval: length, Aligned: true}
	return budget{kind: fixedWindow, policy: p, length: length, most: permits}
}

// rest returns the remaining time of the current window, for a status without a call to Redis.
func (b budget) rest(now time.Time) time.Duration {
	if p, ok := b.policy.(limit.FixedWindow); ok && !p.Aligned || !ok && b.policy != nil || b.length <= 0 {
		return b.length
	}
	return b.length - time.Duration(now.UnixNano()%int64(b.length))
}

// limitFile is a limit in a file.
type limitFile struct {
	name                        string
	replaces                    []string
	unlimited                   bool
	requests, unit, per, policy *rulefile.Node
	own                         map[string]*rulefile.Node // fields of single policies
}

var limitFields = func() map[string]field[limitFile] {
	known := map[string]field[limitFile]{
		"requests_per_unit": func(_ *reader, n *rulefile.Node, f *limitFile) { f.requests = n },
		"unit":              func(_ *reader, n *rulefile.Node, f *limitFile) { f.unit = n },
		"per":               func(_ *reader, n *rulefile.Node, f *limitFile) { f.per = n },
		"policy":            func(_ *reader, n *rulefile.Node, f *limitFile) { f.policy = n },
		"name":              func(r *reader, n *rulefile.Node, f *limitFile) { f.name = r.text(n) },
		"replaces":          func(r *reader, n *rulefile.Node, f *limitFile) { f.replaces = r.replaces(n) },
		"unlimited":         func(r *reader, n *rulefile.Node, f *limitFile) { f.unlimited = r.Boolean(n) },
	}
	for _, name := range policy.Fields() {
		known[name] = func(_ *reader, n *rulefile.Node, f *limitFile) {
			if f.own == nil {
				f.own = make(map[string]*rulefile.Node)
			}
			f.own[name] = n
		}
	}
	return known
}()

// limit decodes a limit.
func (r *reader) limit(n *rulefile.Node) *oneLimit {
	f := limitFile{}
	before := len(r.Problems)
	rulefile.Fields(r, n, limitFields, &f)
	made := &oneLimit{line: n.Line, name: f.name, replaces: f.replaces, unlimited: f.unlimited}
	if slices.Contains(made.replaces, made.name) {
		r.FailField(n, "replaces", "names %q, which is this limit itself", made.name)
	}
	if len(r.Problems) > before {
		return nil
	}
	if made.unlimited {
		for _, given := range []*rulefile.Node{f.unit, f.per, f.policy} {
			if given != nil {
				r.Fail(given, "is %q, but the limit is unlimited: take one of them away", rulefile.Clip(given.Value))
			}
		}
		return made
	}
	l := rulefile.Limit{Policy: fixedWindow, Aligned: true, Fields: f.own}
	if f.requests == nil {
		r.FailField(n, "requests_per_unit", "is missing; 0 refuses everything")
	} else {
		l.Permits = r.Number(f.requests, 0, math.MaxUint32, fmt.Sprintf("a whole number, 0 to %d", uint32(math.MaxUint32)))
	}
	if f.policy != nil {
		l.Policy, _ = r.PolicyName(f.policy)
	}
	unit := r.length(n, &f, &l)
	if len(r.Problems) > before {
		return nil
	}
	p := r.Policy(n, &l)
	if len(r.Problems) > before {
		return nil
	}
	made.budget = budget{kind: l.Policy, policy: p, length: l.Per}
	if d, ok := policy.Of(p); ok {
		made.budget.most, made.budget.onCredit = uint64(d.Most), d.Refill == policy.OnCredit
	}
	made.shown = &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(l.Permits), Unit: unit, Name: made.name}
	return made
}

var replacedFields = map[string]field[string]{
	"name": func(r *reader, n *rulefile.Node, name *string) { *name = r.text(n) },
}

// replaces decodes the names of limits.
func (r *reader) replaces(n *rulefile.Node) (names []string) {
	r.List(n, "a list", func(n *rulefile.Node) {
		name := ""
		rulefile.Fields(r, n, replacedFields, &name)
		if name == "" && len(r.Problems) == 0 {
			r.FailField(n, "name", "is empty, want the name of the limit that is replaced")
			return
		}
		names = append(names, name)
	})
	return names
}

// length decodes unit and per. It returns the protocol's unit of that length, if there is one.
func (r *reader) length(n *rulefile.Node, f *limitFile,
	l *rulefile.Limit) (unit ratelimit.RateLimitResponse_RateLimit_Unit) {
	switch {
	case f.unit != nil && f.per != nil:
		r.Fail(f.per, "stands beside unit, take one of them away")
	case f.per != nil:
		l.Per = r.Duration(f.per)
		for u, length := range unitLengths {
			if length == l.Per {
				unit = u
			}
		}
	default:
		name := r.text(f.unit)
		number := ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
		unit = ratelimit.RateLimitResponse_RateLimit_Unit(number)
		if l.Per = unitLengths[unit]; l.Per == 0 {
			r.FailField(n, "unit", "is %q, want second, minute, hour, day, week, month or year; or per, for any interval",
				rulefile.Clip(name))
		}
	}
	if rulefile.HasUnit(l.Policy) && l.Per > 0 {
		if l.Unit = calendarUnits[unit]; l.Unit == 0 || f.per != nil {
			r.FailField(n, "unit", "is %q, want day, week, month or year for policy: calendar", strings.ToLower(unit.String()))
		}
	}
	return unit
}

var _ fmt.Stringer = (*oneLimit)(nil)
