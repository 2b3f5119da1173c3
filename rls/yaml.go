package rls

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

const (
	maxNodes = 1 << 20 // values of a file; an alias counts each time
	maxDepth = 1000    // of nested values
)

// parseYAML parses the documents of a text.
func parseYAML(data []byte) ([]*rulefile.Node, *rulefile.Problem) {
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		load := &yaml.LoadError{}
		if !errors.As(err, &load) {
			load.Message = err.Error()
		}
		return nil, rulefile.SyntaxProblem(
			data, load.Mark.Line, load.Mark.Column, load.Message, load.ContextMsg, load.ContextMark.Line)
	}
	var all []*rulefile.Node
	for _, document := range documents {
		var c converter
		for _, n := range document.Content {
			all = append(all, c.node(n, 0))
		}
		if c.problem != nil {
			return nil, c.problem
		}
	}
	return all, nil
}

// converter converts values of the YAML library. It resolves aliases and merges mappings, and
// bounds both, since with them a small file can have any number of values.
type converter struct {
	nodes   int
	problem *rulefile.Problem
}

func (c *converter) fail(n *yaml.Node, format string, values ...any) {
	if c.problem == nil {
		c.problem = &rulefile.Problem{Line: n.Line, Column: n.Column, Reason: fmt.Sprintf(format, values...)}
	}
}

func (c *converter) node(n *yaml.Node, depth int) *rulefile.Node {
	n = resolve(n)
	converted := &rulefile.Node{Tag: n.ShortTag(), Value: n.Value, Plain: n.Style == 0, Line: n.Line, Column: n.Column}
	c.nodes++
	switch {
	case c.problem != nil:
	case c.nodes > maxNodes:
		c.fail(n, "the file has more than %d values, aliases counted each time", maxNodes)
	case depth > maxDepth:
		c.fail(n, "the file has values more than %d deep", maxDepth)
	case n.Kind == yaml.MappingNode:
		c.mapping(n, depth, converted)
	default:
		for _, child := range n.Content {
			converted.Content = append(converted.Content, c.node(child, depth+1))
		}
	}
	return converted
}

// mapping converts the fields of a mapping, followed by those that it merges.
func (c *converter) mapping(n *yaml.Node, depth int, into *rulefile.Node) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case name.ShortTag() != "!!merge":
			into.Content = append(into.Content, c.node(name, depth+1), c.node(value, depth+1))
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, from := range merged {
		if from = resolve(from); from.Kind != yaml.MappingNode {
			c.fail(from, "<< is %q, want a mapping", rulefile.Clip(from.Value))
			return
		}
		other := c.node(from, depth+1).Content
		for i := 0; i+1 < len(other); i += 2 {
			if !hasField(into, other[i].Value) {
				into.Content = append(into.Content, other[i], other[i+1])
			}
		}
	}
}

func hasField(n *rulefile.Node, name string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return true
		}
	}
	return false
}

// resolve returns the value of an alias.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}
