package rulefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limit is a limit of a file whose rate is known.
type Limit struct {
	Policy  string
	Permits int64
	Per     time.Duration    // unless the policy is Calendar
	Unit    limit.Unit       // if it is
	Aligned bool             // for fixed windows, if the file does not state it
	Fields  map[string]*Node // PolicyFields that the file has
}

// Calendar is the policy whose rate has a unit of the calendar.
const Calendar = "calendar"

// PolicyFields lists the fields that only some policies have.
var PolicyFields = []string{"aligned", "burst", "capacity", "cells", "cold_factor", "in", "warm_up"}

// policy is how a policy is read, and which fields it has.
type policy struct {
	fields []string
	read   func(d *Decoder, l *Limit) limit.Policy
}

var policies = map[string]policy{
	"fixed_window": {[]string{"aligned"}, func(d *Decoder, l *Limit) limit.Policy {
		aligned := l.Aligned
		if n := l.Fields["aligned"]; n != nil {
			aligned = d.Boolean(n)
		}
		return limit.FixedWindow{Permits: l.Permits, Interval: l.Per, Aligned: aligned}
	}},
	Calendar: {[]string{"in"}, func(d *Decoder, l *Limit) limit.Policy {
		return limit.Calendar{Permits: l.Permits, Unit: l.Unit, In: d.location(l.Fields["in"])}
	}},
	"sliding_window": {[]string{"cells"}, func(d *Decoder, l *Limit) limit.Policy {
		p := limit.SlidingWindow{Permits: l.Permits, Interval: l.Per}
		if n := l.Fields["cells"]; n != nil {
			p.Cells = int(d.Number(n, 2, 1000, "a whole number of cells, 2 to 1000"))
		}
		return p
	}},
	"sliding_log": {nil, func(_ *Decoder, l *Limit) limit.Policy {
		return limit.SlidingLog{Permits: l.Permits, Interval: l.Per}
	}},
	"token_bucket": {[]string{"capacity"}, func(d *Decoder, l *Limit) limit.Policy {
		return limit.TokenBucket{Capacity: d.capacity(l), Refill: l.Permits, Interval: l.Per}
	}},
	"leaky_bucket": {[]string{"capacity"}, func(d *Decoder, l *Limit) limit.Policy {
		return limit.LeakyBucket{Capacity: d.capacity(l), Leak: l.Permits, Interval: l.Per}
	}},
	"smooth": {[]string{"burst", "warm_up", "cold_factor"}, func(d *Decoder, l *Limit) limit.Policy {
		p := limit.Smooth{Permits: l.Permits, Interval: l.Per}
		if n := l.Fields["burst"]; n != nil {
			p.Burst = d.Duration(n)
		}
		if n := l.Fields["warm_up"]; n != nil {
			p.WarmUp = d.Duration(n)
		}
		if n := l.Fields["cold_factor"]; n != nil {
			p.ColdFactor = d.Fraction(n, "a number, 1 to 1,000,000", func(x float64) bool { return x >= 1 && x <= 1e6 })
		}
		return p
	}},
}

// Policies returns the names of all policies in alphabetical order.
func Policies() []string { return slices.Sorted(maps.Keys(policies)) }

// PolicyName reads the name of a policy.
func (d *Decoder) PolicyName(n *Node) (string, bool) {
	name, ok := d.Text(n, "a text, one of "+ListOf(policies))
	if _, known := policies[name]; ok && !known {
		d.Fail(n, "no policy %q, want one of %s", Clip(name), ListOf(policies))
		return "", false
	}
	return name, ok
}

// Policy reads the policy of a limit. It returns nil for a rate of 0, and if something is wrong.
func (d *Decoder) Policy(n *Node, l *Limit) limit.Policy {
	before := len(d.Problems)
	known := policies[l.Policy]
	p := known.read(d, l)
	d.Unused(l.Fields, l.Policy, known.fields...)
	if len(d.Problems) > before || l.Permits == 0 {
		return nil
	}
	if err := limit.Validate(p); err != nil {
		d.Fail(n, "%s", ReasonOf(err))
		return nil
	}
	return p
}

// Unused reports the fields that a policy does not have.
func (d *Decoder) Unused(fields map[string]*Node, policy string, own ...string) {
	for _, name := range PolicyFields {
		if n := fields[name]; n != nil && !slices.Contains(own, name) {
			d.Fail(n, "%s means nothing to %s", name, policy)
		}
	}
}

// MostPermits is the most permits of a rate.
const MostPermits = 1 << 53

// capacity reads that of a bucket, by default the permits of an interval.
func (d *Decoder) capacity(l *Limit) int64 {
	n := l.Fields["capacity"]
	if n == nil {
		return l.Permits
	}
	return d.Number(n, 1, MostPermits, "a whole number of permits, 1 to 2^53")
}

// location reads a time zone.
func (d *Decoder) location(n *Node) *time.Location {
	if d.IsAbsent(n) {
		return nil
	}
	const want = "a text, a place like Europe/Berlin, or UTC"
	name, ok := d.Text(n, want)
	if !ok {
		return nil
	}
	shared, ok := locations.Load(name)
	if !ok {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
			d.Fail(n, "no time zone %q, want %s", Clip(name), want)
			return nil
		}
		shared, _ = locations.LoadOrStore(name, zone)
	}
	zone, _ := shared.(*time.Location)
	return zone
}

// locations has one pointer for each name, so that policies can be compared.
var locations sync.Map

// ReasonOf returns the text of an error without the prefix that all errors of rates have.
func ReasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("%v: ", rratelimiter.ErrInvalidRate))
}
