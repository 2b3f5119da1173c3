package rls

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/limit"
)

// fixedWindow is the policy of a limit without one.
const fixedWindow = "fixed_window"

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

type rateLimit struct {
	name      string
	replaces  []string // names of limits
	unlimited bool
	kind      string       // of the policy
	policy    limit.Policy // nil grants nothing
	interval  time.Duration
	most      uint64 // the largest grant at once
	onCredit  bool   // a request may take more than is free
	current   *ratelimit.RateLimitResponse_RateLimit
}

// override returns the limit that a request brings. Its windows are aligned.
func override(brought *common.RateLimitDescriptor_RateLimitOverride) (*rateLimit, bool) {
	unit := ratelimit.RateLimitResponse_RateLimit_Unit(brought.GetUnit()) // both enums have the same numbers
	interval, ok := unitLengths[unit]
	permits := brought.GetRequestsPerUnit()
	l := &rateLimit{
		kind: fixedWindow, interval: interval, most: uint64(permits),
		current: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: permits, Unit: unit},
	}
	if permits > 0 {
		l.policy = limit.FixedWindow{Permits: int64(permits), Interval: interval, Aligned: true}
	}
	return l, ok
}

// reset returns the remaining time of the current window, for a status without a call to Redis.
func (l *rateLimit) reset(now time.Time) time.Duration {
	if p, ok := l.policy.(limit.FixedWindow); ok && !p.Aligned || !ok && l.policy != nil {
		return l.interval
	}
	return l.interval - time.Duration(now.UnixNano()%int64(l.interval))
}

func (l *rateLimit) String() string {
	if l.unlimited {
		return "unlimited"
	}
	text := fmt.Sprintf("unit=%s requests_per_unit=%d", l.current.GetUnit(), l.current.GetRequestsPerUnit())
	if l.kind != fixedWindow || l.current.GetUnit() == ratelimit.RateLimitResponse_RateLimit_UNKNOWN {
		text += fmt.Sprintf(" policy=%T%+v", l.policy, l.policy)
	}
	return text
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
