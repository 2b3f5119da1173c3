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

// Description describes a policy. Register sets what Describe leaves empty: the Name, and where a
// comment says so another field.
type Description struct {
	Name   string        // of its kind, in files and metrics: "fixed_window"
	Shown  string        // the name that the user gives, for clients; "" for none
	Label  string        // that clients see without it; "" if clients see the Window
	Quota  int64         // the permits that a Decision shows as its Limit; 0 for Pausing
	Most   int64         // the permits that one request can be granted; empty: the Quota
	Window time.Duration // in which it grants the quota over and over; 0 if that has no fixed length
	Refill Refill
	Local  Local

	Interval time.Duration // of the rate; 0 if its windows have no fixed length

	Key     string // its part of a limiter's key; policies with one key share state
	Type    string // of its key in Redis, as TYPE names it; empty: string
	Longest int64  // bytes of a text in that key, at most; empty: 256
	Lua     string // its Lua file in package limit, without .lua; empty: the Name without "_"
	Dated   bool   // the arguments of its script depend on the time
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
	Held                       // each when its holder returns it, or an interval after it was taken
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
	case d.Refill < ByAge || d.Refill > Held:
		return fmt.Errorf("%s does not describe how permits return", d.Name)
	case d.Local.Permits < 1 || d.Local.Returns < 1 || d.Local.Interval < 1:
		return fmt.Errorf("%s describes no local share", d.Name)
	}
	return nil
}

// Kind is a kind of policies: all that middleware, files of limits and the tool know of it.
type Kind[P any] struct {
	Name     string
	Describe func(P) Description

	// How a file states one. New returns the policy of a rate, which may be invalid.
	Unit   bool // its rate is that of a unit of the calendar
	NoRate bool // it has only its Fields; in the notation of the tool, the first needs no name
	Fields []Field
	Nested bool // in a file, the Fields stand in a mapping under the Name
	New    func(Rate) P

	// Words are what the keys begin with, up to a colon: "window" of "window:60000". The tool refuses
	// the policies of a kind without words.
	Words []string

	// FromKey parses a policy's part of a key: a word and the text after its colon. The key does not
	// contain the permits: the policy has as few as possible. The policy of a text that is no such part
	// has another key, or is invalid. If nil, the text is an interval.
	FromKey func(word, rest string) P

	// Short formats what the notation has besides the permits and the interval: ",aligned". Nil: nothing.
	Short func(P) string

	// Read reads the state. It returns false for a content that the scripts do not write.
	Read func(P, Content) (State, bool)
}

// Field is a field that a file may state besides the rate.
type Field struct {
	Name     string
	Type     FieldType
	Min, Max int64  // of a Count
	Want     string // what a Count has to be
}

// FieldType is the type of a field's value: a bool, int64, [time.Duration] or *[time.Location].
type FieldType int

// The types of fields.
const (
	Bool FieldType = iota + 1
	Count
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
	kinds = make(map[reflect.Type]Kind[any]) // the registered kinds, by the type of their policies
	words = make(map[string]reflect.Type)    // the types, by their Words
)

// Register adds the kind of the policies of a type. It returns a function that removes it, for
// tests. It is not safe for concurrent use.
func Register[P any](k Kind[P]) (remove func()) {
	key := reflect.TypeFor[P]()
	kinds[key] = k.untyped()
	for _, word := range k.Words {
		words[word] = key
	}
	return func() {
		delete(kinds, key)
		maps.DeleteFunc(words, func(_ string, of reflect.Type) bool { return of == key })
	}
}

// untyped returns the kind for any policy, with what it leaves empty.
func (k Kind[P]) untyped() Kind[any] {
	policy := func(p any) P { return p.(P) } //nolint:errcheck,forcetypeassert // they are looked up by this type
	fromKey := k.FromKey
	if fromKey == nil {
		fromKey = func(_, rest string) P { return k.New(Rate{Permits: 1, Interval: KeyInterval(rest)}) }
	}
	return Kind[any]{
		Name: k.Name, Unit: k.Unit, NoRate: k.NoRate, Fields: k.Fields, Nested: k.Nested, Words: k.Words,
		Describe: func(p any) Description {
			d := k.Describe(policy(p))
			d.Name = k.Name
			d.Most, d.Type, d.Longest = cmp.Or(d.Most, d.Quota), cmp.Or(d.Type, "string"), cmp.Or(d.Longest, 256)
			d.Lua = cmp.Or(d.Lua, strings.ReplaceAll(k.Name, "_", ""))
			return d
		},
		New:     func(r Rate) any { return k.New(r) },
		FromKey: func(word, rest string) any { return fromKey(word, rest) },
		Short: func(p any) string {
			if k.Short == nil {
				return ""
			}
			return k.Short(policy(p))
		},
		Read: func(p any, c Content) (State, bool) { return k.Read(policy(p), c) },
	}
}

// Of returns the description of a policy. It returns false for a value of another type, as nil and
// a pointer to a policy. One of limit.Named still has its name.
func Of(p any) (d Description, ok bool) {
	if n, isNamed := p.(namedPolicy); isNamed {
		d, ok = Of(Plain(p))
		d.Shown, _ = n.Named()
		return d, ok
	}
	k, ok := kinds[reflect.TypeOf(p)]
	if !ok {
		return Description{}, false
	}
	return k.Describe(p), true
}

// namedPolicy is a policy with a name of the user.
type namedPolicy interface {
	Named() (name string, policy any)
}

// Plain returns a policy without its name.
func Plain(p any) any {
	if n, ok := p.(namedPolicy); ok {
		_, p = n.Named()
	}
	return p
}

// Kinds returns the registered kinds in the alphabetical order of their names.
func Kinds() []Kind[any] {
	return slices.SortedFunc(maps.Values(kinds), func(a, b Kind[any]) int { return cmp.Compare(a.Name, b.Name) })
}

// Lookup returns the kind with a name.
func Lookup(name string) (Kind[any], bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind[any]{}, false
}

// Names lists the names of all kinds, for an error.
func Names() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// InFile returns the names of the fields that a limit of a file may have for this kind.
func (k Kind[P]) InFile() (names []string) {
	if k.Nested {
		return []string{k.Name}
	}
	for _, f := range k.Fields {
		names = append(names, f.Name)
	}
	return names
}

// Fields returns the names InFile of all kinds in alphabetical order.
func Fields() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.InFile()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
