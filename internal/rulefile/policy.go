package rulefile

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limit is a limit of a file after its rate was decoded.
type Limit struct {
	Policy  string
	Permits int64
	Per     time.Duration // unless the policy has a unit
	Unit    limit.Unit    // if it has
	Aligned bool          // the field "aligned", if the policy has it and the file does not state it
	Fields  PolicyFields
}

// HasUnit reports whether a policy's rate has a unit of the calendar.
func HasUnit(name string) bool {
	kind, _ := policy.Lookup(name)
	return kind.Unit
}

// PolicyName decodes the name of a policy. It returns the default name if the file states none, or
// none that exists, and reports whether there is no problem.
func (d *Decoder) PolicyName(n *Node, byDefault string) (string, bool) {
	if n == nil {
		return byDefault, true
	}
	name, ok := d.Text(n, "a text, one of "+policy.Names())
	if _, known := policy.Lookup(name); ok && !known {
		d.Fail(n, "no policy %q, want one of %s", Clip(name), policy.Names())
		return byDefault, false
	} else if !ok {
		return byDefault, false
	}
	return name, true
}

// Policy decodes the policy of a limit. It returns nil for a rate of 0, and for a problem.
func (d *Decoder) Policy(n *Node, l *Limit) limit.Policy {
	before := len(d.Problems)
	kind, _ := policy.Lookup(l.Policy)
	rate := policy.Rate{Permits: l.Permits, Interval: l.Per, Unit: int(l.Unit), Fields: make(map[string]any)}
	var own []string
	for _, f := range kind.Fields {
		own = append(own, f.Name)
		if stated := l.Fields[f.Name]; stated != nil {
			rate.Fields[f.Name] = d.field(stated, f)
		} else if f.Name == "aligned" {
			rate.Fields[f.Name] = l.Aligned
		}
	}
	d.Unused(l.Fields, l.Policy, own...)
	if len(d.Problems) > before || l.Permits == 0 {
		return nil
	}
	p, ok := kind.New(rate).(limit.Policy)
	if !ok {
		d.Fail(n, "no policy %q", l.Policy)
		return nil
	}
	if err := limit.Validate(p); err != nil {
		d.Fail(n, "%s", ReasonOf(err))
		return nil
	}
	return p
}

// field decodes the value of a policy's field.
func (d *Decoder) field(n *Node, f policy.Field) any {
	switch f.Type {
	case policy.Bool:
		return d.Boolean(n)
	case policy.Count:
		return d.Number(n, int64(f.Min), int64(f.Max), f.Want)
	case policy.Number:
		return d.Fraction(n, f.Want, func(x float64) bool { return x >= f.Min && x <= f.Max })
	case policy.Duration:
		return d.Duration(n)
	case policy.Location:
		return d.location(n)
	}
	d.Fail(n, "%s cannot be read", f.Name)
	return nil
}

// Unused reports fields that the policy does not have.
func (d *Decoder) Unused(fields PolicyFields, name string, own ...string) {
	for _, field := range policy.Fields() {
		if n := fields[field]; n != nil && !slices.Contains(own, field) {
			d.Fail(n, "%s has no meaning for %s", field, name)
		}
	}
}

// MostPermits is the largest number of permits of a rate.
const MostPermits = 1 << 53

// location decodes a time zone.
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

// locations has one pointer for each name, so that policies are comparable.
var locations sync.Map

// ReasonOf returns the text of an error without the common prefix of errors of rates.
func ReasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("%v: ", rratelimiter.ErrInvalidRate))
}
