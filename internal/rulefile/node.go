// Package rulefile is the common part of the files of packages rules and rls. It decodes strictly
// and with positions, parses the notation of policies, and reads and watches files. It depends on
// no YAML library: rules/internal/yamlfile adapts one.
package rulefile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Node is a value in a document.
type Node struct {
	Tag     string // Mapping, List, Text, Int, Float, Bool, Null or another tag of YAML
	Value   string // a scalar as it is written
	Plain   bool   // a scalar without quotes
	Line    int
	Column  int
	Content []*Node // the items of a list; the names and values of a mapping in turn
}

// The tags of JSON's types.
const (
	Mapping = "!!map"
	List    = "!!seq"
	Text    = "!!str"
	Int     = "!!int"
	Float   = "!!float"
	Bool    = "!!bool"
	Null    = "!!null"
)

// IsScalar reports whether a value is neither a mapping nor a list.
func (n *Node) IsScalar() bool { return n.Tag != Mapping && n.Tag != List }

// String describes a value for errors.
func (n *Node) String() string {
	switch n.Tag {
	case Mapping:
		return "a mapping"
	case List:
		return "a list"
	case Text:
		return fmt.Sprintf("the text %q", Clip(n.Value))
	case Int, Float:
		return "the number " + Clip(n.Value)
	case Null:
		return "nothing"
	case Bool:
		return Clip(n.Value)
	}
	return fmt.Sprintf("%q (%s)", Clip(n.Value), n.Tag)
}

// fieldOf returns the path of a value in a document, for instance rules[3].limits[0].rate.
func fieldOf(in, wanted *Node) string {
	path, _ := pathTo(in, wanted)
	return strings.TrimPrefix(path, ".")
}

func pathTo(in, wanted *Node) (string, bool) {
	if in == wanted {
		return "", true
	}
	for i, child := range in.Content {
		if path, ok := pathTo(child, wanted); ok {
			segment := "[" + strconv.Itoa(i) + "]"
			if in.Tag == Mapping {
				segment = segmentOf(in.Content[i&^1].Value)
			}
			return segment + path, true
		}
	}
	return "", false
}

func segmentOf(name string) string {
	if strings.ContainsAny(name, ". []") || name == "" || !IsPrintable(name) {
		return fmt.Sprintf("[%q]", Clip(name))
	}
	return "." + Clip(name)
}

// IsPrintable reports whether a text is printable ASCII.
func IsPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Clip shortens a text for an error.
func Clip(text string) string { return Cut(64, text) }

// Cut shortens a text to at most n bytes.
func Cut(most int, text string) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}
