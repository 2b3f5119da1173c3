package names

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// PolicyHelp describes the notation of policies.
const PolicyHelp = `window:5/1m          FixedWindow; aligned:5/1m an Aligned one
sliding:100/1m       SlidingWindow; sliding:100/1m/60 with 60 cells
log:100/1m           SlidingLog
bucket:5/1s          TokenBucket, 5 permits per second; bucket:20+5/1s holds up to 20
leaky:5/1s           LeakyBucket; leaky:20+5/1s holds up to 20
smooth:5/1s          Smooth; smooth:5/1s,burst=2s,warmup=3s,cold=3
day:1000             Calendar (day, week, month, year); day:1000@Europe/Berlin`

// Given is a policy given by the user.
type Given struct {
	limit.Policy
	Stored Stored // the part in its key
	Most   int64  // the limit, 0 if it has none
	Refill int64  // of a bucket, permits per interval
}

// Known returns the parts of policies in their keys.
func Known(given []Given) []Stored {
	var all []Stored
	for _, g := range given {
		all = append(all, g.Stored)
	}
	return all
}

// ParsePolicy parses a policy of package limit.
func ParsePolicy(text string) (Given, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok {
		return Given{}, unknown(text, errors.New("it has no colon"))
	}
	var p limit.Policy
	var err error
	switch kind {
	case "day", "week", "month", "year":
		p, err = calendar(kind, rest)
	case "smooth":
		p, err = parseSmooth(rest)
	case "bucket", "leaky":
		p, err = bucket(kind, rest)
	case "sliding":
		p, err = sliding(rest)
	case "window", "aligned", "log":
		permits, interval, rateErr := ParseRate(rest)
		if err = rateErr; kind == "log" {
			p = limit.SlidingLog{Permits: permits, Interval: interval}
		} else {
			p = limit.FixedWindow{Permits: permits, Interval: interval, Aligned: kind == "aligned"}
		}
	default:
		err = fmt.Errorf("no policy %q", kind)
	}
	if err == nil {
		err = limit.Validate(p)
	}
	if err != nil {
		return Given{}, unknown(text, err)
	}
	return NewGiven(p)
}

// NewGiven returns the Given of a policy.
func NewGiven(p limit.Policy) (Given, error) {
	d, _ := policy.Of(p)
	stored, ok := ParseStored(d.Key)
	if !ok {
		return Given{}, fmt.Errorf("rrl cannot read the keys of %T", p)
	}
	g := Given{Policy: p, Stored: stored}
	if d.Refill != policy.OnCredit {
		g.Most = d.Quota
	}
	if d.Refill == policy.Evenly {
		g.Refill = d.Local.Returns
	}
	return g, nil
}

func unknown(text string, err error) error {
	return fmt.Errorf("%q is not a policy: %w; the notation is:\n%s", text, err, PolicyHelp)
}

func calendar(kind, rest string) (limit.Policy, error) {
	count, place, placed := strings.Cut(rest, "@")
	permits, err := strconv.ParseInt(count, 10, 64)
	if err != nil || permits < 1 {
		return nil, fmt.Errorf("permits are %q, want a whole number above 0", count)
	}
	p := limit.Calendar{Permits: permits, Unit: units[kind]}
	if placed {
		if p.In, err = time.LoadLocation(place); err != nil || place == "" {
			return nil, fmt.Errorf("no time zone %q, want one such as Europe/Berlin", place)
		}
	}
	return p, nil
}

func bucket(kind, rest string) (limit.Policy, error) {
	count, refilled, filled := strings.Cut(rest, "+")
	if !filled {
		refilled = rest
	}
	refill, interval, err := ParseRate(refilled)
	if err != nil {
		return nil, err
	}
	capacity := refill
	if filled {
		if capacity, err = strconv.ParseInt(count, 10, 64); err != nil || capacity < 1 {
			return nil, fmt.Errorf("capacity is %q, want a whole number above 0", count)
		}
	}
	if kind == "leaky" {
		return limit.LeakyBucket{Capacity: capacity, Leak: refill, Interval: interval}, nil
	}
	return limit.TokenBucket{Capacity: capacity, Refill: refill, Interval: interval}, nil
}

func sliding(rest string) (limit.Policy, error) {
	cells := int64(0)
	if parts := strings.Split(rest, "/"); len(parts) == 3 {
		var ok bool
		if cells, ok = whole(parts[2]); !ok || cells < 2 || cells > 1000 {
			return nil, fmt.Errorf("cells are %q, want 2 to 1000", parts[2])
		}
		rest = parts[0] + "/" + parts[1]
	}
	permits, interval, err := ParseRate(rest)
	return limit.SlidingWindow{Permits: permits, Interval: interval, Cells: int(cells)}, err
}

func parseSmooth(rest string) (limit.Policy, error) {
	parts := strings.Split(rest, ",")
	permits, interval, err := ParseRate(parts[0])
	if err != nil {
		return nil, err
	}
	p := limit.Smooth{Permits: permits, Interval: interval}
	for _, part := range parts[1:] {
		field, value, _ := strings.Cut(part, "=")
		switch field {
		case "burst":
			p.Burst, err = ParseDuration(value)
		case "warmup":
			p.WarmUp, err = ParseDuration(value)
		case "cold":
			p.ColdFactor, err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("no field %q, want burst, warmup or cold", field)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Key returns the key of the policy of a limiter.
func (s Stored) Key(name string) string {
	part := fmt.Sprintf("%s:%d", s.Kind, s.Interval.Milliseconds())
	switch {
	case s.Place != "":
		part = s.Kind + ":" + s.Place
	case s.Cells != 0:
		part = fmt.Sprintf("%s:%d", part, s.Cells)
	}
	return ofPolicy(name, part)
}

// Least returns a policy with this key and the fewest permits, for calls that take none.
func (s Stored) Least() limit.Policy {
	switch s.Kind {
	case "window", "aligned":
		return limit.FixedWindow{Permits: 1, Interval: s.Interval, Aligned: s.Kind == "aligned"}
	case "sliding":
		return limit.SlidingWindow{Permits: 1, Interval: s.Interval, Cells: int(s.Cells)}
	case "log":
		return limit.SlidingLog{Permits: 1, Interval: s.Interval}
	case "bucket":
		return limit.TokenBucket{Capacity: 1, Refill: 1, Interval: s.Interval}
	case "leaky":
		return limit.LeakyBucket{Capacity: 1, Leak: 1, Interval: s.Interval}
	case "smooth", "warmup":
		smooth := limit.Smooth{Permits: 1, Interval: s.Interval}
		if s.Kind == "warmup" {
			smooth.WarmUp = time.Second
		}
		return smooth
	}
	in, _ := time.LoadLocation(s.Place) // ParseStored has checked it
	return limit.Calendar{Permits: 1, Unit: units[s.Kind], In: in}
}

var units = map[string]limit.Unit{"day": limit.Day, "week": limit.Week, "month": limit.Month, "year": limit.Year}
