// Package yamlfile reads YAML and follows files for packages rules and rls: it adapts a YAML library
// and notifications of the system to internal/rulefile, which depends on neither.
package yamlfile

import (
	"context"
	"errors"
	"fmt"
	_ "time/tzdata" // a file may name time zones, and images often have none

	"github.com/fsnotify/fsnotify"
	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

const (
	maxValues = 1 << 20 // of a file; what an alias or a merge repeats counts each time
	maxDepth  = 1000    // of nested values
)

// Parse parses the documents of a text.
func Parse(data []byte) ([]*rulefile.Node, *rulefile.Problem) { return new(converter).parse(data) }

// converter converts values of the YAML library. It resolves aliases and merges mappings, and
// bounds both, since with them a small file can have any number of values.
type converter struct {
	values  int // converted or merged so far
	problem *rulefile.Problem
}

func (c *converter) parse(data []byte) ([]*rulefile.Node, *rulefile.Problem) {
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		at := new(yaml.LoadError)
		if !errors.As(err, &at) {
			at.Message = err.Error()
		}
		problem := rulefile.SyntaxProblem(data, at.Mark.Line, at.Mark.Column, at.Message, at.ContextMsg, at.ContextMark.Line)
		problem.Err = err
		return nil, problem
	}
	var all []*rulefile.Node
	for _, document := range documents {
		for _, n := range document.Content {
			all = append(all, c.node(n, 0))
		}
		if c.problem != nil {
			return nil, c.problem
		}
	}
	return all, nil
}

func (c *converter) fail(n *yaml.Node, format string, values ...any) {
	if c.problem == nil {
		c.problem = &rulefile.Problem{Line: n.Line, Column: n.Column, Reason: fmt.Sprintf(format, values...)}
	}
}

// count counts values, and reports whether there is no problem so far.
func (c *converter) count(n *yaml.Node, values int) bool {
	if c.values += values; c.values > maxValues {
		c.fail(n, "the file has more than %d values, aliases counted each time", maxValues)
	}
	return c.problem == nil
}

func (c *converter) node(n *yaml.Node, depth int) *rulefile.Node {
	n = resolve(n)
	converted := &rulefile.Node{Tag: n.ShortTag(), Value: n.Value, Plain: n.Style == 0, Line: n.Line, Column: n.Column}
	switch {
	case !c.count(n, 1):
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
	if len(merged) == 0 {
		return
	}
	fields := make(map[string]bool, len(into.Content)/2)
	for i := 0; i < len(into.Content); i += 2 {
		fields[into.Content[i].Value] = true
	}
	for _, from := range merged {
		if from = resolve(from); from.Kind != yaml.MappingNode {
			c.fail(from, "<< is %q, want a mapping", rulefile.Clip(from.Value))
			return
		}
		other := c.node(from, depth+1).Content
		if !c.count(from, len(other)) {
			return
		}
		for i := 0; i+1 < len(other); i += 2 {
			if name := other[i].Value; !fields[name] {
				fields[name] = true
				into.Content = append(into.Content, other[i], other[i+1])
			}
		}
	}
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// Follow follows files until ctx ends. Without notifications of the system it only polls.
func Follow(ctx context.Context, w *rulefile.Watcher) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		rulefile.Run[fsnotify.Event](ctx, w, nil, nil, nil)
		return
	}
	defer func() { _ = n.Close() }() // nothing is left to do about it
	rulefile.Run(ctx, w, n, n.Events, n.Errors)
}
