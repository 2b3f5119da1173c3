package rules

import (
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/limit"
)

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

var wantPolicy = "a text, one of " + listOf(policies)

// own is the fields that only some policies have.
func (l *limitFile) own() map[string]*yaml.Node {
	return map[string]*yaml.Node{
		"aligned": l.aligned, "in": l.in, "cells": l.cells, "capacity": l.capacity, "burst": l.burst, "warm_up": l.warmUp, "cold_factor": l.cold,
	}
}

// policyFields is those that each policy has.
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
	if known, ok := places.Load(name); ok {
		place, _ := known.(*time.Location)
		return place
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
