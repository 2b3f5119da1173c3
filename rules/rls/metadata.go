package rls

import (
	"math"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// metadata is a mapping of any values, in the types of JSON.
type metadata map[string]any

func (m *metadata) UnmarshalNode(d *rulefile.Decoder, n *rulefile.Node) {
	if d.IsAbsent(n) {
		return
	}
	if n.Tag != rulefile.Mapping {
		d.Wrong(n, "a mapping")
		return
	}
	*m, _ = anything(d, n).(map[string]any)
}

func anything(d *rulefile.Decoder, n *rulefile.Node) any {
	switch n.Tag {
	case rulefile.Mapping:
		made := make(map[string]any)
		d.Pairs(n, func(name, value *rulefile.Node) { made[name.Value] = anything(d, value) })
		return made
	case rulefile.List:
		made := []any{}
		for _, value := range n.Content {
			made = append(made, anything(d, value))
		}
		return made
	case rulefile.Null:
		return nil
	case rulefile.Bool:
		return strings.EqualFold(n.Value, "true")
	case rulefile.Int:
		if whole, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return whole
		}
	case rulefile.Float:
		if value, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			return value
		}
	}
	return n.Value
}

// mergeMetadata adds the fields that a mapping lacks, at any depth.
func mergeMetadata(into, from map[string]any) {
	for key, value := range from {
		inner, isMapping := value.(map[string]any)
		existing, exists := into[key]
		if isMapping && !exists {
			existing = make(map[string]any) // a copy, since later additions must not change the rule
			into[key] = existing
		}
		if outer, ok := existing.(map[string]any); ok && isMapping {
			mergeMetadata(outer, inner)
		} else if !exists {
			into[key] = value
		}
	}
}
