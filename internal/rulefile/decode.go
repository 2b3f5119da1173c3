package rulefile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// Places are mappings to which a misplaced field may belong, for its error.
	Places []Place
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
	d.refuseManifest(root)
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
	if line := lineOf(data, isNoUTF8); line > 0 {
		return nil, &Problem{Line: line, Reason: "the file is not UTF-8"}
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

// refuseManifest reports that a file is a manifest of Kubernetes with the text in it, as in a ConfigMap.
func (d *Decoder) refuseManifest(root *Node) {
	fields := make(map[string]*Node)
	var names []string
	for i := 0; root.Tag == Mapping && i+1 < len(root.Content); i += 2 {
		fields[root.Content[i].Value] = root.Content[i+1]
		names = append(names, root.Content[i].Value)
	}
	data := fields["data"]
	if !slices.Contains(names, "apiVersion") || !slices.Contains(names, "kind") || data == nil {
		return
	}
	if data.Tag != Mapping || len(data.Content) == 0 {
		d.Fail(root, "a Kubernetes manifest (%s), want the text of a file", Clip(fields["kind"].Value))
		return
	}
	name := data.Content[0]
	d.Fail(name, "a Kubernetes manifest (%s), want the text of %q: cut the lines up to %d, and the indentation of the others",
		Clip(fields["kind"].Value), Clip(name.Value), name.Line)
}
