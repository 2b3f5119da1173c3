package rulefile

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// PolicyFields is the fields of single policies that a limit of a file has.
type PolicyFields map[string]*Node

// Place is a mapping of a file.
type Place struct {
	Name   string // for errors
	Fields any    // a struct as for Fields
}

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
	value := reflect.ValueOf(into).Elem()
	layout := layoutOf(value.Type())
	d.Pairs(n, func(name, child *Node) {
		index, ok := layout[name.Value]
		if !ok {
			d.unknown(name, layout)
			return
		}
		switch field := value.FieldByIndex(index).Addr().Interface().(type) {
		case **Node:
			*field = child
		case *PolicyFields:
			if *field == nil {
				*field = make(PolicyFields)
			}
			(*field)[name.Value] = child
		}
	})
	return true
}

// unknown reports a field that a mapping does not have.
func (d *Decoder) unknown(name *Node, layout map[string][]int) {
	for _, place := range d.Places {
		if _, ok := layoutOf(reflect.TypeOf(place.Fields))[name.Value]; ok {
			d.Fail(name, "has no meaning here, it belongs to %s", place.Name)
			return
		}
	}
	d.Fail(name, "unknown field %q, want %s", Clip(name.Value), ListOf(layout))
}

// layouts has the result of layoutOf by type.
var layouts sync.Map

// layoutOf returns the index of the Go field for each name in a file.
func layoutOf(t reflect.Type) map[string][]int {
	if layout, ok := layouts.Load(t); ok {
		return layout.(map[string][]int) //nolint:errcheck,forcetypeassert // it has nothing else
	}
	layout := make(map[string][]int)
	for _, f := range reflect.VisibleFields(t) {
		switch f.Type {
		case reflect.TypeFor[*Node]():
			layout[nameOf(f)] = f.Index
		case reflect.TypeFor[PolicyFields]():
			for _, name := range policy.Fields() {
				layout[name] = f.Index
			}
		}
	}
	layouts.Store(t, layout)
	return layout
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
func ListOf[T any](named map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(named)), ", ")
}
