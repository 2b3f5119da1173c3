package rls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/door"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// The policies by their names in files.
const (
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window"
	slidingLog    = "sliding_log"
	calendar      = "calendar"
	tokenBucket   = "token_bucket"
	leakyBucket   = "leaky_bucket"
	smooth        = "smooth"
)

var policyNames = []string{fixedWindow, slidingWindow, slidingLog, calendar, tokenBucket, leakyBucket, smooth}

// unitLengths is how long the units of the protocol are.
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

// budget is what a limit grants.
type budget struct {
	kind   string
	policy limit.Policy // nil: nothing is ever granted
	length time.Duration
	most   uint64 // that can ever be granted at once
}

// windows is a budget of aligned windows, which is what the protocol's units mean.
func windows(permits uint64, length time.Duration) budget {
	if permits == 0 {
		return budget{length: length}
	}
	return budget{fixedWindow, limit.FixedWindow{Permits: int64(permits), Interval: length, Aligned: true}, length, permits}
}

// rest is how long a window lasts from now on: for what asks nothing of Redis.
func (b budget) rest(now time.Time) time.Duration {
	if p, ok := b.policy.(limit.FixedWindow); ok && !p.Aligned || !ok && b.policy != nil || b.length <= 0 {
		return b.length
	}
	return b.length - time.Duration(now.UnixNano()%int64(b.length))
}

// given is a field that stands in a file.
type given struct {
	name string
	node *yaml.Node
}

// limitFile is the fields of a limit, as a file has them.
type limitFile struct {
	node  *yaml.Node
	path  string
	given []given // what is meant for some limits alone

	name                  string
	replaces              []string
	unit, policy, zone    string
	requests, capacity    uint64
	cells                 uint64
	per, burst, warmUp    time.Duration
	coldFactor            float64
	unlimited, notAligned bool
}

// has is a field's value, or nil.
func (f *limitFile) has(name string) *yaml.Node {
	for _, g := range f.given {
		if g.name == name {
			return g.node
		}
	}
	return nil
}

var limitFields = func() fields[limitFile] {
	known := fields[limitFile]{
		"requests_per_unit": func(r *reader, n *yaml.Node, path string, f *limitFile) {
			f.requests = r.number(n, path, math.MaxUint32)
		},
		"unit":    func(r *reader, n *yaml.Node, path string, f *limitFile) { f.unit = r.text(n, path) },
		"per":     func(r *reader, n *yaml.Node, path string, f *limitFile) { f.per = r.duration(n, path) },
		"policy":  func(r *reader, n *yaml.Node, path string, f *limitFile) { f.policy = r.oneOf(n, path, policyNames...) },
		"aligned": func(r *reader, n *yaml.Node, path string, f *limitFile) { f.notAligned = !r.flag(n, path) },
		"cells":   func(r *reader, n *yaml.Node, path string, f *limitFile) { f.cells = r.number(n, path, 1000) },
		"in":      func(r *reader, n *yaml.Node, path string, f *limitFile) { f.zone = r.text(n, path) },
		"capacity": func(r *reader, n *yaml.Node, path string, f *limitFile) {
			f.capacity = r.number(n, path, math.MaxUint32)
		},
		"burst":   func(r *reader, n *yaml.Node, path string, f *limitFile) { f.burst = r.duration(n, path) },
		"warm_up": func(r *reader, n *yaml.Node, path string, f *limitFile) { f.warmUp = r.duration(n, path) },
		"cold_factor": func(r *reader, n *yaml.Node, path string, f *limitFile) {
			f.coldFactor = float64(r.number(n, path, 1_000_000))
		},
	}
	for name, read := range known {
		known[name] = func(r *reader, n *yaml.Node, path string, f *limitFile) {
			f.given = append(f.given, given{name, n})
			read(r, n, path, f)
		}
	}
	known["name"] = func(r *reader, n *yaml.Node, path string, f *limitFile) { f.name = r.text(n, path) }
	known["replaces"] = func(r *reader, n *yaml.Node, path string, f *limitFile) { f.replaces = r.replaces(n, path) }
	known["unlimited"] = func(r *reader, n *yaml.Node, path string, f *limitFile) { f.unlimited = r.flag(n, path) }
	return known
}()

// limit reads a limit.
func (r *reader) limit(n *yaml.Node, path string) *oneLimit {
	f := limitFile{node: n, path: path}
	before := len(r.errs)
	mapping(r, n, path, limitFields, &f)
	made := &oneLimit{line: n.Line, name: f.name, replaces: f.replaces}
	for _, replaced := range made.replaces {
		if replaced == made.name {
			r.fail(n, path+".replaces", "names %q, which is this limit itself", replaced)
		}
	}
	if len(r.errs) > before {
		return nil
	}
	if made.unlimited = f.unlimited; f.unlimited {
		for _, name := range []string{"unit", "per", "policy"} {
			if given := f.has(name); given != nil {
				r.fail(given, path+"."+name, "is %s, but the limit is unlimited: take one of them away", told(given))
			}
		}
		return made
	}
	unit := r.length(&f)
	if len(r.errs) > before {
		return nil
	}
	if made.budget = r.budget(&f, unit); len(r.errs) > before {
		return nil
	}
	made.shown = &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(f.requests), Unit: unit, Name: made.name}
	return made
}

var replacedFields = fields[string]{
	"name": func(r *reader, n *yaml.Node, path string, name *string) { *name = r.text(n, path) },
}

// replaces reads the names of limits.
func (r *reader) replaces(n *yaml.Node, path string) (names []string) {
	r.list(n, path, func(n *yaml.Node, path string) {
		name := ""
		mapping(r, n, path, replacedFields, &name)
		if name == "" {
			r.fail(n, path+".name", "is empty, want the name of the limit that is replaced")
			return
		}
		names = append(names, name)
	})
	return names
}

// length reads unit and per: it sets per, and gives the protocol's unit of that length, if there is one.
func (r *reader) length(f *limitFile) (unit ratelimit.RateLimitResponse_RateLimit_Unit) {
	unitNode, perNode := f.has("unit"), f.has("per")
	switch {
	case unitNode != nil && perNode != nil:
		r.fail(perNode, f.path+".per", "stands beside unit, take one of them away")
	case perNode != nil:
		for u, length := range unitLengths {
			if length == f.per {
				unit = u
			}
		}
	default:
		number, ok := ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(f.unit)]
		if unit = ratelimit.RateLimitResponse_RateLimit_Unit(number); !ok || unit == ratelimit.RateLimitResponse_RateLimit_UNKNOWN {
			at := f.node
			if unitNode != nil {
				at = unitNode
			}
			r.fail(at, f.path+".unit", "is %q, want second, minute, hour, day, week, month or year; or per, for any interval", f.unit)
		}
		f.per = unitLengths[unit]
	}
	if f.has("requests_per_unit") == nil {
		r.fail(f.node, f.path+".requests_per_unit", "is missing; 0 refuses everything")
	}
	return unit
}

// meant is which policies have a field.
var meant = map[string][]string{
	"aligned":     {fixedWindow},
	"cells":       {slidingWindow},
	"in":          {calendar},
	"capacity":    {tokenBucket, leakyBucket},
	"burst":       {smooth},
	"warm_up":     {smooth},
	"cold_factor": {smooth},
}

// budget makes what a limit grants.
func (r *reader) budget(f *limitFile, unit ratelimit.RateLimitResponse_RateLimit_Unit) budget {
	kind := f.policy
	if kind == "" {
		kind = fixedWindow
	}
	for _, g := range f.given {
		if kinds := meant[g.name]; kinds != nil && !slices.Contains(kinds, kind) {
			r.fail(g.node, f.path+"."+g.name, "has no meaning for %s, only for policy: %s", kind, strings.Join(kinds, ", "))
			return budget{}
		}
	}
	permits := int64(f.requests)
	var p limit.Policy
	switch kind {
	case fixedWindow:
		p = limit.FixedWindow{Permits: permits, Interval: f.per, Aligned: !f.notAligned}
	case slidingWindow:
		p = limit.SlidingWindow{Permits: permits, Interval: f.per, Cells: int(f.cells)}
	case slidingLog:
		p = limit.SlidingLog{Permits: permits, Interval: f.per}
	case calendar:
		zone, err := time.LoadLocation(f.zone)
		if err != nil || f.zone == "Local" {
			r.fail(f.has("in"), f.path+".in", "is %q, which is no time zone here, want one as Europe/Berlin", f.zone)
			return budget{}
		}
		u, ok := calendarUnits[unit]
		if !ok || f.has("per") != nil {
			r.fail(f.node, f.path+".unit", "is %q, want day, week, month or year for policy: calendar", strings.ToLower(unit.String()))
			return budget{}
		}
		p = limit.Calendar{Permits: permits, Unit: u, In: zone}
	case tokenBucket, leakyBucket:
		capacity := permits
		if f.has("capacity") != nil {
			capacity = int64(f.capacity)
		}
		if p = limit.Policy(limit.TokenBucket{Capacity: capacity, Refill: permits, Interval: f.per}); kind == leakyBucket {
			p = limit.LeakyBucket{Capacity: capacity, Leak: permits, Interval: f.per}
		}
	case smooth:
		p = limit.Smooth{Permits: permits, Interval: f.per, Burst: f.burst, WarmUp: f.warmUp, ColdFactor: f.coldFactor}
	}
	if permits == 0 {
		return budget{kind: kind, length: f.per}
	}
	if err := inside.CheckPolicy(p); err != nil {
		r.fail(f.node, f.path, "%s", strings.TrimPrefix(err.Error(), "rratelimiter: "))
		return budget{}
	}
	b := budget{kind, p, f.per, uint64(door.Quota(p))}
	if kind == smooth {
		b.most = math.MaxUint32 // it lends whatever is asked for
	}
	return b
}

// refused says what package limit has against policies of one name.
func refused(policies ...limit.Policy) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := limit.New(unasked, "check", policies...).Peek(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// unasked is a Client that is never asked: package limit checks policies before Redis.
var unasked = rratelimiter.New(nowhere{})

// nowhere is a Redis that nobody calls.
type nowhere struct{ rueidis.Client }

func (nowhere) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

var _ fmt.Stringer = (*oneLimit)(nil)
