package rulefile

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// PolicyFields is the fields of single policies that a limit of a file has.
type PolicyFields map[string]*Node

// Fields decodes a mapping into a struct, and reports whether it is a mapping. Each *Node of the
// struct is a field of the mapping. Its name is that of the Go field in snake case, or its tag
// "file". A field of type PolicyFields takes the fields of all policies.
func (d *Decoder) Fields(n *Node, into any) bool {
	if d.IsAbsent(n) {
		return true
	}
	if n.Tag != Mapping {
		d.Wrong(n, "a mapping")
		return false
	}
	known := settersOf(reflect.ValueOf(into).Elem())
	d.Pairs(n, func(name, value *Node) {
		if set, ok := known[name.Value]; ok {
			set(value)
		} else {
			d.Fail(name, "unknown field %q, want %s", Clip(name.Value), ListOf(known))
		}
	})
	return true
}

// settersOf returns the function that sets each field.
func settersOf(into reflect.Value) map[string]func(*Node) {
	known := make(map[string]func(*Node))
	for _, f := range reflect.VisibleFields(into.Type()) {
		switch f.Type {
		case reflect.TypeFor[*Node]():
			known[nameOf(f)] = func(n *Node) { into.FieldByIndex(f.Index).Set(reflect.ValueOf(n)) }
		case reflect.TypeFor[PolicyFields]():
			stated := make(PolicyFields)
			into.FieldByIndex(f.Index).Set(reflect.ValueOf(stated))
			for _, name := range policy.Fields() {
				known[name] = func(n *Node) { stated[name] = n }
			}
		}
	}
	return known
}

// nameOf returns the name of a field in a file.
func nameOf(f reflect.StructField) string {
	if name := f.Tag.Get("file"); name != "" {
		return name
	}
	var name strings.Builder
	for i, r := range f.Name {
		if unicode.IsUpper(r) && i > 0 {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// ListOf joins the names of a map in alphabetical order.
func ListOf[T any](known map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}
