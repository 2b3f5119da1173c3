package rulefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// RatedPolicy is PolicyKind for a place that needs a policy with a rate.
func (d *Decoder) RatedPolicy(n *Node, stated PolicyFields, byDefault string) policy.Kind[any] {
	kind, _ := d.PolicyKind(n, stated, byDefault)
	if kind.NoRate {
		d.Fail(cmp.Or(n, stated[kind.Name]), "policy %s has no rate, and one is needed here", kind.Name)
	}
	return kind
}

// PolicyKind decodes the name of a policy. It returns the default if the file states none, or none
// that exists, and reports whether there is no problem. A field with the name of a policy states it, too.
func (d *Decoder) PolicyKind(n *Node, stated PolicyFields, byDefault string) (policy.Kind[any], bool) {
	kind, _ := policy.Lookup(byDefault)
	if n == nil {
		for field := range stated {
			if named, ok := policy.Lookup(field); ok {
				kind = named
			}
		}
		return kind, true
	}
	name, ok := d.Text(n, "a text, one of "+policy.Names())
	if stated, exists := policy.Lookup(name); exists {
		return stated, true
	}
	if ok {
		d.Fail(n, "no policy %q, want one of %s", Clip(name), policy.Names())
	}
	return kind, false
}

// Policy decodes a policy of a kind and a rate. The Fields of the rate are the values of fields that
// the file does not state. Policy returns nil for a rate of 0, and for a problem.
func (d *Decoder) Policy(n *Node, kind policy.Kind[any], rate policy.Rate, stated PolicyFields) limit.Policy {
	before := len(d.Problems)
	d.Unused(stated, kind.Name, kind.InFile()...)
	if kind.Nested {
		stated = d.nested(stated[kind.Name], kind)
	}
	fields := maps.Clone(rate.Fields)
	if fields == nil {
		fields = make(map[string]any)
	}
	for _, f := range kind.Fields {
		if stated[f.Name] != nil {
			fields[f.Name] = d.field(stated[f.Name], f)
		}
	}
	rate.Fields = fields
	if len(d.Problems) > before || rate.Permits == 0 {
		return nil
	}
	p, ok := kind.New(rate).(limit.Policy)
	if !ok {
		d.Fail(n, "no policy %q", kind.Name)
		return nil
	}
	if err := limit.Validate(p); err != nil {
		d.Fail(n, "%s", reasonInFile(err, kind))
		return nil
	}
	return p
}

// reasonInFile returns the text of the error of a policy. It names a field as the file does: lease, and not
// InFlight.Lease.
func reasonInFile(err error, kind policy.Kind[any]) string {
	reason := ReasonOf(err)
	of, rest, ok := strings.Cut(reason, " ")
	for _, f := range kind.Fields {
		if _, field, _ := strings.Cut(of, "."); ok && strings.EqualFold(field, strings.ReplaceAll(f.Name, "_", "")) {
			return f.Name + " of " + kind.Name + " " + rest
		}
	}
	return reason
}

// nested decodes the mapping with the fields of a policy.
func (d *Decoder) nested(n *Node, kind policy.Kind[any]) PolicyFields {
	stated := make(PolicyFields)
	if n == nil {
		return stated
	}
	if n.Tag != Mapping {
		d.Wrong(n, "a mapping")
		return stated
	}
	var names []string
	for _, f := range kind.Fields {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	d.Pairs(n, func(name, value *Node) {
		if !slices.Contains(names, name.Value) {
			d.Fail(name, "unknown field %q, want %s", Clip(name.Value), strings.Join(names, ", "))
		}
		stated[name.Value] = value
	})
	return stated
}

// field decodes the value of a policy's field.
func (d *Decoder) field(n *Node, f policy.Field) any {
	switch f.Type {
	case policy.Bool:
		return d.Boolean(n)
	case policy.Count:
		return d.Number(n, f.Min, f.Max, f.Want)
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
func (d *Decoder) Unused(stated PolicyFields, name string, own ...string) {
	for _, field := range policy.Fields() {
		if n := stated[field]; n != nil && !slices.Contains(own, field) {
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
