package rulefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// HasUnit reports whether a policy's rate has a unit of the calendar.
func HasUnit(name string) bool {
	kind, _ := policy.Lookup(name)
	return kind.Unit
}

// HasRate reports whether a policy has a rate.
func HasRate(name string) bool {
	kind, _ := policy.Lookup(name)
	return !kind.NoRate
}

// RatedPolicy is PolicyName for a place that needs a policy with a rate.
func (d *Decoder) RatedPolicy(n *Node, byDefault string) string {
	name, _ := d.PolicyName(n, byDefault)
	if !HasRate(name) {
		d.Fail(n, "policy %s has no rate, and one is needed here", name)
		return byDefault
	}
	return name
}

// PolicyName decodes the name of a policy. It returns the default name if the file states none, or
// none that exists, and reports whether there is no problem.
func (d *Decoder) PolicyName(n *Node, byDefault string) (string, bool) {
	if n == nil {
		return byDefault, true
	}
	name, ok := d.Text(n, "a text, one of "+policy.Names())
	if _, exists := policy.Lookup(name); exists {
		return name, true
	}
	if ok {
		d.Fail(n, "no policy %q, want one of %s", Clip(name), policy.Names())
	}
	return byDefault, false
}

// Policy decodes the policy of a limit with a name and a rate. The Fields of the rate are the
// values of fields that the file does not state. Policy returns nil for a rate of 0, and for a problem.
func (d *Decoder) Policy(n *Node, name string, rate policy.Rate, stated PolicyFields) limit.Policy {
	before := len(d.Problems)
	kind, _ := policy.Lookup(name)
	fields := make(map[string]any)
	maps.Copy(fields, rate.Fields)
	for _, f := range kind.Fields {
		if stated[f.Name] != nil {
			fields[f.Name] = d.field(stated[f.Name], f)
		}
	}
	rate.Fields = fields
	d.Unused(stated, name, kind.Fields...)
	if len(d.Problems) > before || rate.Permits == 0 {
		return nil
	}
	p, ok := kind.New(rate).(limit.Policy)
	if !ok {
		d.Fail(n, "no policy %q", name)
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
		var length Duration
		d.Value(n, &length)
		return time.Duration(length)
	case policy.Location:
		return d.location(n)
	}
	d.Fail(n, "%s cannot be read", f.Name)
	return nil
}

// Unused reports fields that the policy does not have.
func (d *Decoder) Unused(stated PolicyFields, name string, own ...policy.Field) {
	for _, field := range policy.Fields() {
		isOwn := slices.ContainsFunc(own, func(f policy.Field) bool { return f.Name == field })
		if n := stated[field]; n != nil && !isOwn {
			d.Fail(n, "%s has no meaning for %s", field, name)
		}
	}
}

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
	zone, ok := policy.LoadLocation(name)
	if !ok {
		d.Fail(n, "no time zone %q, want %s", Clip(name), want)
	}
	return zone
}

// ReasonOf returns the text of an error without the common prefix of errors of rates.
func ReasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("%v: ", rratelimiter.ErrInvalidRate))
}
