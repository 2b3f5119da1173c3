package ruleset

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

func parseYAML(data []byte) ([]*rulefile.Node, *rulefile.Problem) {
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
			all = append(all, nodeOf(n))
		}
	}
	return all, nil
}

// nodeOf converts a value of the YAML library. It refuses what JSON does not have: an alias, which
// makes a large document from a small one, and a tag, which changes a value.
func nodeOf(n *yaml.Node) *rulefile.Node {
	converted := &rulefile.Node{Tag: n.ShortTag(), Value: n.Value, Plain: n.Style == 0, Line: n.Line, Column: n.Column}
	switch {
	case n.Kind == yaml.AliasNode:
		converted.Refused = "aliases are not supported: what many rules share goes into defaults"
	case n.Anchor != "":
		const reason = "the anchor &%s is not supported: what many rules share goes into defaults"
		converted.Refused = fmt.Sprintf(reason, rulefile.Clip(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		converted.Refused = fmt.Sprintf("the tag %s is not supported", rulefile.Clip(n.Tag))
	}
	for _, child := range n.Content {
		converted.Content = append(converted.Content, nodeOf(child))
	}
	return converted
}
