package rulefile

import (
	"encoding"
	"fmt"
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

// Unmarshaler is a type that decodes itself from a value of several types, for instance a text or a
// mapping. It reports what is wrong to the decoder.
type Unmarshaler interface {
	UnmarshalNode(d *Decoder, n *Node)
}

// TextUnmarshaler is a type that decodes itself from a text.
type TextUnmarshaler interface {
	encoding.TextUnmarshaler
	Want() string // describes the text for errors
}

// Fields decodes a mapping into a struct, and reports whether it is a mapping. Each exported field of
// the struct is a field of the mapping. Its name is that of the Go field in snake case, or its tag
// "file". A field of type *Node takes the value as it is, and a field of type PolicyFields takes the
// fields of all policies. [Decoder.Value] decodes the others.
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
		default:
			d.Value(child, field)
		}
	})
	return true
}

// Value decodes a value into a string, a bool, an [Unmarshaler] or a [TextUnmarshaler].
func (d *Decoder) Value(n *Node, into any) {
	switch into := into.(type) {
	case Unmarshaler:
		into.UnmarshalNode(d, n)
	case TextUnmarshaler:
		if text, ok := d.Text(n, into.Want()); ok && !d.IsAbsent(n) {
			d.Parse(n, text, into)
		}
	case *string:
		*into, _ = d.Text(n, "a text")
	case *bool:
		*into = d.Boolean(n)
	default:
		panic(fmt.Sprintf("rulefile: a field of type %T decodes no value", into))
	}
}

// Parse decodes a text, and reports its error.
func (d *Decoder) Parse(n *Node, text string, into encoding.TextUnmarshaler) {
	if err := into.UnmarshalText([]byte(text)); err != nil {
		d.Fail(n, "%v", err)
	}
}

// ListOf decodes a text or a list of texts, each into a T.
func ListOf[T any, P interface {
	*T
	TextUnmarshaler
}](d *Decoder, n *Node) (all []T) {
	d.Texts(n, P(new(T)).Want(), func(n *Node, text string) {
		var one T
		d.Parse(n, text, P(&one))
		all = append(all, one)
	})
	return all
}

// unknown reports a field that a mapping does not have.
func (d *Decoder) unknown(name *Node, layout map[string][]int) {
	for _, place := range d.Places {
		if _, ok := layoutOf(reflect.TypeOf(place.Fields))[name.Value]; ok {
			d.Fail(name, "has no meaning here, it belongs to %s", place.Name)
			return
		}
	}
	names := slices.Sorted(maps.Keys(layout))
	d.Fail(name, "unknown field %q, want %s", Clip(name.Value), strings.Join(names, ", "))
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
		switch {
		case f.Type == reflect.TypeFor[PolicyFields]():
			for _, name := range policy.Fields() {
				layout[name] = f.Index
			}
		case !f.Anonymous && f.IsExported():
			layout[nameOf(f)] = f.Index
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
