package rulefile

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// Decoder decodes the values of a document, and collects problems. A value that is nil is left out
// of the file: its decoded value is zero.
type Decoder struct {
	File     string
	Root     *Node
	Problems []*Problem

	// Lax accepts the YAML of files of Envoy's rate limit service: any scalar as a text, absent
	// values as null, and numbers and booleans of YAML 1.1.
	Lax bool
}

// Load parses a text of one document with a YAML library. It reports whether there is no problem so
// far.
func (d *Decoder) Load(data []byte, parse func(data []byte) ([]*Node, *Problem)) bool {
	root, problem := load(data, parse)
	if problem != nil {
		problem.File = d.File
		d.Problems = append(d.Problems, problem)
		return false
	}
	d.Root = root
	return len(d.Problems) == 0
}

func load(data []byte, parse func(data []byte) ([]*Node, *Problem)) (*Node, *Problem) {
	if len(data) > MaxBytes { // a file may have grown since its size was checked
		return nil, tooLarge("", int64(len(data)))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &Problem{Reason: "the file is empty"}
	}
	if !utf8.Valid(data) {
		return nil, &Problem{Line: lineOf(data, isNoUTF8), Reason: "the file is not UTF-8"}
	}
	documents, problem := parse(data)
	switch {
	case problem != nil:
		return nil, problem
	case len(documents) == 0:
		return nil, &Problem{Reason: "the file has nothing but comments"}
	case len(documents) > 1:
		reason := fmt.Sprintf("%d documents in one file, want one", len(documents))
		return nil, &Problem{Line: documents[1].Line, Column: documents[1].Column, Reason: reason}
	}
	return documents[0], nil
}

// Full reports whether the largest number of problems is reached.
func (d *Decoder) Full() bool { return len(d.Problems) >= MaxProblems }

// Fail reports that a value is wrong.
func (d *Decoder) Fail(n *Node, format string, values ...any) {
	d.add(n, fieldOf(d.Root, n), format, values)
}

// FailField reports that a field of a mapping is wrong, or missing.
func (d *Decoder) FailField(n *Node, name, format string, values ...any) {
	field := strings.TrimPrefix(fieldOf(d.Root, n)+segmentOf(name), ".")
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n = n.Content[i+1]
			break
		}
	}
	d.add(n, field, format, values)
}

func (d *Decoder) add(n *Node, field, format string, values []any) {
	if !d.Full() {
		reason := fmt.Sprintf(format, values...)
		d.Problems = append(d.Problems, &Problem{File: d.File, Line: n.Line, Column: n.Column, Field: field, Reason: reason})
	}
}

// Wrong reports that a value has another type.
func (d *Decoder) Wrong(n *Node, want string) {
	hint := ""
	if n.IsScalar() && n.Tag != Null && strings.HasPrefix(want, "a text, ") {
		hint = "; what is no text of itself needs quotes"
	}
	d.Fail(n, "%s, want %s%s", n, want, hint)
}

// IsAbsent reports whether a value counts as left out.
func (d *Decoder) IsAbsent(n *Node) bool { return n == nil || d.Lax && n.Tag == Null }

// Pairs calls a function for each field of a mapping, once each.
func (d *Decoder) Pairs(n *Node, each func(name, value *Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.Full(); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Tag != Text {
			d.Fail(name, "%s, want the name of a field", name)
		} else if line := seen[name.Value]; line > 0 {
			d.Fail(name, "%q is there twice, first in line %d", Clip(name.Value), line)
		} else {
			seen[name.Value] = name.Line
			each(name, value)
		}
	}
}

// Text decodes a text that is not empty.
func (d *Decoder) Text(n *Node, want string) (string, bool) {
	switch {
	case d.IsAbsent(n):
		return "", true
	case n.Tag != Text && (!d.Lax || !n.IsScalar()):
		d.Wrong(n, want)
		return "", false
	case n.Value == "" && !d.Lax:
		d.Fail(n, "an empty text, want %s", want)
		return "", false
	}
	return n.Value, true
}

// OneOf decodes one of some texts. It returns "" for none of them.
func (d *Decoder) OneOf(n *Node, options ...string) string {
	if d.IsAbsent(n) {
		return ""
	}
	want := "one of " + strings.Join(options, ", ")
	if len(options) == 2 {
		want = strings.Join(options, " or ")
	}
	text, ok := d.Text(n, "a text, "+want)
	if ok && !slices.Contains(options, text) {
		d.Fail(n, "%q, want %s", Clip(text), want)
		return ""
	}
	return text
}

// Texts decodes a text or a list of texts.
func (d *Decoder) Texts(n *Node, want string, each func(n *Node, text string)) {
	one := func(n *Node) {
		if text, ok := d.Text(n, want); ok {
			each(n, text)
		}
	}
	if !d.IsAbsent(n) && n.IsScalar() {
		one(n)
		return
	}
	d.List(n, want+", or a list of them", one)
}

// List decodes a list that is not empty.
func (d *Decoder) List(n *Node, want string, each func(n *Node)) {
	if d.IsAbsent(n) {
		return
	}
	if n.Tag != List {
		d.Wrong(n, want)
		return
	}
	if len(n.Content) == 0 && !d.Lax {
		d.Fail(n, "an empty list, want %s", want)
	}
	for _, child := range n.Content {
		if d.Full() {
			return
		}
		each(child)
	}
}

// Number decodes a decimal integer.
func (d *Decoder) Number(n *Node, least, most int64, want string) int64 {
	if n == nil {
		return 0
	}
	if n.Tag != Int {
		d.Wrong(n, want)
		return 0
	}
	text, base := n.Value, 10
	if d.Lax {
		text, base = strings.TrimPrefix(text, "+"), 0
	}
	number, err := strconv.ParseInt(text, base, 64)
	unusual := strings.HasPrefix(n.Value, "+") || len(n.Value) > 1 && n.Value[0] == '0'
	if err != nil || number < least || number > most || unusual && !d.Lax {
		d.Fail(n, "%s, want %s", Clip(n.Value), want)
		return 0
	}
	return number
}

// Fraction decodes a number.
func (d *Decoder) Fraction(n *Node, want string, ok func(x float64) bool) float64 {
	if n.Tag != Int && n.Tag != Float {
		d.Wrong(n, want)
		return 0
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !ok(x) {
		d.Fail(n, "%s, want %s", Clip(n.Value), want)
		return 0
	}
	return x
}

// Boolean decodes true or false.
func (d *Decoder) Boolean(n *Node) bool {
	if d.IsAbsent(n) {
		return false
	}
	text := strings.ToLower(n.Value)
	switch {
	case n.Tag == Bool:
		return text == "true"
	case d.Lax && n.Plain && slices.Contains([]string{"yes", "on", "y"}, text):
		return true
	case d.Lax && n.Plain && slices.Contains([]string{"no", "off", "n"}, text):
		return false
	}
	d.Wrong(n, "true or false")
	return false
}

// PolicyFields is the fields of single policies that a limit of a file has.
type PolicyFields map[string]*Node

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
	if d.IsAbsent(n) {
		return nil
	}
	d.Texts(n, P(new(T)).Want(), func(n *Node, text string) {
		var one T
		d.Parse(n, text, P(&one))
		all = append(all, one)
	})
	return all
}

// unknown reports a field that a mapping does not have.
func (d *Decoder) unknown(name *Node, layout map[string][]int) {
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

// Duration is a duration above 0, in whole milliseconds.
type Duration time.Duration

// Want describes a duration.
func (*Duration) Want() string { return notation.WantDuration }

// UnmarshalText decodes a duration in the notation of package notation.
func (l *Duration) UnmarshalText(text []byte) error {
	length, err := notation.ParseDuration(Clip(string(text))) // the error has the text
	*l = Duration(length)
	return err
}

// Range is a range of addresses. An address alone is the range that has only it.
type Range struct{ netip.Prefix }

const wantRange = "one like 10.0.0.0/8 or 2001:db8::/32"

// Want describes a range.
func (*Range) Want() string { return "a text, a range of addresses like 10.0.0.0/8 or 2001:db8::/32" }

// UnmarshalText decodes a range, or an address.
func (r *Range) UnmarshalText(text []byte) (err error) {
	if addr, alone := netip.ParseAddr(string(text)); alone == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		r.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	r.Prefix, err = netip.ParsePrefix(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%q is no range of addresses, want %s", Clip(string(text)), wantRange)
	case r.Prefix != r.Masked():
		return fmt.Errorf("%q has bits behind its length: did you mean %v, or %v/%d?",
			text, r.Masked(), r.Addr(), r.Addr().BitLen())
	}
	return nil
}
