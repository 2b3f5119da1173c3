package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// decoder reads the values of a document, and keeps what is wrong with them.
type decoder struct {
	file     string
	root     *yaml.Node
	problems []*Error
	apart    map[[2]limit.Policy]bool // pairs that count in keys of their own, by their kinds

	address      httplimit.Address
	allowSlashes bool
	defaults     ruleFile
}

// full says that enough is wrong.
func (d *decoder) full() bool { return len(d.problems) >= mostProblems }

// fail tells that a value is wrong.
func (d *decoder) fail(n *yaml.Node, format string, values ...any) {
	if d.full() {
		return
	}
	d.problems = append(d.problems, &Error{
		File: d.file, Line: n.Line, Column: n.Column, Field: fieldOf(d.root, n), Reason: fmt.Sprintf(format, values...),
	})
}

// fieldOf is where a value stands in a document.
func fieldOf(in, wanted *yaml.Node) string {
	path, _ := pathTo(in, wanted)
	return strings.TrimPrefix(path, ".")
}

func pathTo(in, wanted *yaml.Node) (string, bool) {
	if in == wanted {
		return "", true
	}
	for i, child := range in.Content {
		step := "[" + strconv.Itoa(i) + "]"
		if in.Kind == yaml.MappingNode {
			name := in.Content[i&^1].Value
			if step = "." + clipped(name); strings.ContainsAny(name, ". []") || name == "" || !isPrintable(name) {
				step = fmt.Sprintf("[%q]", clipped(name))
			}
		}
		if path, ok := pathTo(child, wanted); ok {
			return step + path, true
		}
	}
	return "", false
}

// what a value is, for errors.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind != yaml.ScalarNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %q", clipped(n.Value))
	case "!!int", "!!float":
		return "the number " + clipped(n.Value)
	case "!!null":
		return "nothing"
	case "!!bool":
		return clipped(n.Value)
	}
	return fmt.Sprintf("%q (%s)", clipped(n.Value), n.ShortTag())
}

// wrong tells that a value is of another type.
func (d *decoder) wrong(n *yaml.Node, want string) {
	hint := ""
	if n.Kind == yaml.ScalarNode && strings.HasPrefix(want, "a text, ") && n.ShortTag() != "!!null" {
		hint = "; what is no text of itself needs quotes"
	}
	d.fail(n, "%s, want %s%s", kindOf(n), want, hint)
}

// field is what a name in a mapping means for a T.
type field[T any] func(d *decoder, n *yaml.Node, into *T)

// fields reads a mapping of known names, and says whether it is a mapping.
func fields[T any](d *decoder, n *yaml.Node, known map[string]field[T], into *T) bool {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, "a mapping")
		return false
	}
	d.pairs(n, func(name, value *yaml.Node) {
		if read, ok := known[name.Value]; ok {
			read(d, value, into)
		} else {
			d.fail(name, "unknown field %q, want %s", clipped(name.Value), listOf(known))
		}
	})
	return true
}

// pairs gives the fields of a mapping, once each.
func (d *decoder) pairs(n *yaml.Node, each func(name, value *yaml.Node)) {
	var seen map[string]int
	if len(n.Content) > 32 {
		seen = make(map[string]int, len(n.Content)/2)
	}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode || name.ShortTag() != "!!str" {
			d.fail(name, "%s, want the name of a field", kindOf(name))
			continue
		}
		line := 0
		if seen != nil {
			line = seen[name.Value]
			seen[name.Value] = name.Line
		} else {
			for j := 0; j < i; j += 2 {
				if n.Content[j].Value == name.Value {
					line = n.Content[j].Line
				}
			}
		}
		if line > 0 {
			d.fail(name, "%q is there twice, first in line %d", clipped(name.Value), line)
			continue
		}
		each(name, value)
	}
}

// text reads a text that is not empty.
func (d *decoder) text(n *yaml.Node, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.wrong(n, want)
		return "", false
	}
	if n.Value == "" {
		d.fail(n, "an empty text, want %s", want)
		return "", false
	}
	return n.Value, true
}

// texts reads a text or a list of them.
func (d *decoder) texts(n *yaml.Node, want string, each func(n *yaml.Node, text string)) {
	one := func(n *yaml.Node) {
		if text, ok := d.text(n, want); ok {
			each(n, text)
		}
	}
	if n.Kind == yaml.ScalarNode {
		one(n)
		return
	}
	wanted := want
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 { // else nobody is told
		wanted += ", or a list of them"
	}
	d.list(n, wanted, one)
}

// list reads a list that is not empty.
func (d *decoder) list(n *yaml.Node, want string, each func(n *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, want)
		return
	}
	if len(n.Content) == 0 {
		d.fail(n, "an empty list, want %s", want)
	}
	for _, child := range n.Content {
		if d.full() {
			return
		}
		each(child)
	}
}

// number reads a whole number of decimal digits.
func (d *decoder) number(n *yaml.Node, least, most int64, want string) int64 {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		d.wrong(n, want)
		return 0
	}
	number, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || number < least || number > most || strings.HasPrefix(n.Value, "+") || len(n.Value) > 1 && n.Value[0] == '0' {
		d.fail(n, "%s, want %s", clipped(n.Value), want)
		return 0
	}
	return number
}

// fraction reads a number.
func (d *decoder) fraction(n *yaml.Node, want string, ok func(x float64) bool) float64 {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		d.wrong(n, want)
		return 0
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !ok(x) {
		d.fail(n, "%s, want %s", clipped(n.Value), want)
		return 0
	}
	return x
}

// boolean reads true or false.
func (d *decoder) boolean(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.wrong(n, "true or false")
		return false
	}
	return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
}

// duration reads a length of time, above 0.
func (d *decoder) duration(n *yaml.Node) time.Duration {
	text, ok := d.text(n, wantDuration)
	if !ok {
		return 0
	}
	length, ok := parseDuration(text)
	if !ok {
		d.fail(n, "%q is no length of time, want %s", clipped(text), wantDuration)
		return 0
	}
	return length
}

const wantDuration = "a text like 500ms, 30s, 1m30s, 12h or 7d, in whole milliseconds, above 0 and below 292 years"

// parseDuration reads a length of time above 0, in whole milliseconds, with days and weeks besides the units of Go.
func parseDuration(text string) (time.Duration, bool) {
	const day = 24 * time.Hour
	unit := time.Duration(0)
	switch {
	case strings.HasSuffix(text, "d"):
		unit = day
	case strings.HasSuffix(text, "w"):
		unit = 7 * day
	}
	if unit > 0 {
		n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		return time.Duration(n) * unit, err == nil && n > 0 && n <= int64(math.MaxInt64/unit) && text[0] != '+'
	}
	length, err := time.ParseDuration(text)
	return length, err == nil && length > 0 && length%time.Millisecond == 0 && text[0] != '+'
}

// listOf names what may stand somewhere, in order.
func listOf[T any](known map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}
