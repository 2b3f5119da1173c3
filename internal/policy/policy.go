// Package policy is where each policy of package limit describes itself to the middleware, to the
// files of limits and to the tool. They ask the description and know no policy by its type.
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxJoined is the largest number of policies that one script decides, of a limiter or a join. Lua
// allows 200 locals, and a Smooth has 16.
const MaxJoined = 10

// Description describes a policy.
type Description struct {
	Name   string        // of its kind, in files and metrics: "fixed_window"
	Label  string        // that clients see if the user gives no name; "" if clients see the Window
	Key    string        // its part of a limiter's key; policies with one key share state
	Quota  int64         // the permits that a Decision shows as its Limit; 0 for Pausing
	Most   int64         // the permits that one request can be granted
	Window time.Duration // in which it grants the quota over and over; 0 if that has no fixed length
	Refill Refill
	Local  Local

	Interval time.Duration // of the rate; 0 if its windows have no fixed length
	Type     string        // of its key in Redis, as TYPE names it
	Longest  int64         // bytes of a text in that key, at most
}

// Refill is how permits that were taken return.
type Refill int

// The kinds of refill.
const (
	ByAge    Refill = iota + 1 // each an interval after it was taken, or later
	Together                   // all at the end of a window
	Evenly                     // one after another, at a steady rate
	OnCredit                   // as Evenly, and a request may take more than there is
	Pausing                    // it has no permits: it grants all requests, or none
)

// Local is the share of a policy that one process grants by itself while Redis is down.
type Local struct {
	Permits  int64 // that it holds
	Returns  int64 // that return in each Interval, evenly
	Interval time.Duration
	Strict   bool // no interval may see more than Permits; else Permits and those that return in it
}

// Check returns an error for what a policy leaves open.
func (d Description) Check() error {
	switch {
	case d.Key == "":
		return fmt.Errorf("%s describes no key", d.Name)
	case d.Quota < 1 && d.Refill != Pausing || d.Most < 1:
		return fmt.Errorf("%s describes no quota", d.Name)
	case d.Label == "" && d.Window < 1:
		return fmt.Errorf("%s describes neither a label nor a window", d.Name)
	case d.Refill < ByAge || d.Refill > Pausing:
		return fmt.Errorf("%s does not describe how permits return", d.Name)
	case d.Local.Permits < 1 || d.Local.Returns < 1 || d.Local.Interval < 1:
		return fmt.Errorf("%s describes no local share", d.Name)
	}
	return nil
}

// Kind is a kind of policies: how a file states one. Its [Text] is how the tool reads them.
type Kind struct {
	Name   string
	Unit   bool // its rate is that of a unit of the calendar
	NoRate bool // it has only its Fields
	Fields []Field

	// New returns the policy of a rate. It may be invalid.
	New func(Rate) any

	describe func(any) Description
	text     Text[any]
}

// Field is a field that a file may state besides the rate.
type Field struct {
	Name     string
	Type     FieldType
	Min, Max float64 // of a Count or a Number
	Want     string  // what a Count or a Number has to be
}

// FieldType is the type of a field's value: a bool, int64, float64, [time.Duration] or
// *[time.Location].
type FieldType int

// The types of fields.
const (
	Bool FieldType = iota + 1
	Count
	Number
	Duration
	Location
)

// Rate is what a file states of a limit.
type Rate struct {
	Permits  int64
	Interval time.Duration  // unless the Kind has a Unit
	Unit     int            // a limit.Unit
	Fields   map[string]any // those that are stated, by name
}

// Value returns a field of a rate, or the zero value if it is not stated.
func Value[T any](r Rate, field string) T {
	value, _ := r.Fields[field].(T)
	return value
}

var (
	kinds = make(map[reflect.Type]Kind)   // the registered kinds, by the type of their policies
	words = make(map[string]reflect.Type) // the types, by the words of their Text
)

// Register adds the kind of the policies of a type. It returns a function that removes it, for
// tests. It is not safe for concurrent use.
func Register[P any](k Kind, describe func(P) Description, text Text[P]) (remove func()) {
	key := reflect.TypeFor[P]()
	k.text = text.untyped()
	k.describe = func(p any) Description {
		d := describe(p.(P)) //nolint:errcheck,forcetypeassert // Of looks it up by this type
		d.Name = k.Name
		return d
	}
	kinds[key] = k
	for _, word := range text.Words {
		words[word] = key
	}
	return func() {
		delete(kinds, key)
		maps.DeleteFunc(words, func(_ string, of reflect.Type) bool { return of == key })
	}
}

// Of returns the description of a policy. It returns false for a value of another type, as nil and
// a pointer to a policy.
func Of(p any) (Description, bool) {
	k, ok := kinds[reflect.TypeOf(p)]
	if !ok {
		return Description{}, false
	}
	return k.describe(p), true
}

// MemberNames returns the name of the limiter of each policy of a *limit.Limiter, in order. The
// policies of a join have those of its members. It returns none for an invalid limiter, and false
// for another type. Package limit sets it.
var MemberNames func(limiter any) (names []string, ok bool)

// MemberPolicies returns the policies of a *limit.Limiter, in the order of MemberNames, and none for
// another type. Package limit sets it.
var MemberPolicies func(limiter any) []any

// Fallback returns a *fallback.Limiter as a limiter that package limit can call, and nil for another
// type. Package fallback sets it.
var Fallback = func(limiter any) any { return nil }

// Kinds returns the registered kinds in the alphabetical order of their names.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds))
	for _, k := range kinds {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Lookup returns the kind with a name.
func Lookup(name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Names lists the names of all kinds, for an error.
func Names() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// Fields returns the names of the fields of all kinds in alphabetical order.
func Fields() []string {
	var names []string
	for _, k := range kinds {
		for _, f := range k.Fields {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
