// Package check reads files of limits as programs would, and says what is in them or what is wrong. It asks no Redis.
package check

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/rls"
	"github.com/rratelimiter/rratelimiter/rules"
)

// The formats.
const (
	Rules = "rules" // of package rules
	Envoy = "envoy" // of package rls: what rrl serve reads
)

// File is what was found of a file, or of a folder.
type File struct {
	File    string    `json:"file"`
	Format  string    `json:"format"`
	Right   bool      `json:"right"`
	Rules   int       `json:"rules,omitempty"`   // of package rules
	Limits  int       `json:"limits,omitempty"`  // of an Envoy configuration
	Domains []string  `json:"domains,omitempty"` // of an Envoy configuration
	Errors  []Mistake `json:"errors"`            // the first 20 of each file
}

// Mistake is one thing that is wrong.
type Mistake struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`

	text string
}

// Check reads a file, or a folder of Envoy configurations, of which several may have one domain with merge.
func Check(path string, merge bool) File {
	f := File{File: path, Format: formatOf(path), Errors: []Mistake{}}
	var err error
	if f.Format == Envoy {
		var all *rls.Rules
		if all, err = rls.Load(path, merge); err == nil {
			f.Limits, f.Domains = all.Len(), all.Domains()
		}
	} else {
		var set *rules.Set
		if set, err = rules.Load(path); err == nil {
			f.Rules = set.Len()
		}
	}
	f.Right = err == nil
	f.Errors = append(f.Errors, mistakes(err)...)
	return f
}

// mistakes takes an error apart.
func mistakes(err error) []Mistake {
	var (
		joined interface{ Unwrap() []error }
		ours   *rules.Error
		theirs *rls.ConfigError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		var all []Mistake
		for _, one := range joined.Unwrap() {
			all = append(all, mistakes(one)...)
		}
		return all
	case errors.As(err, &ours):
		return []Mistake{{ours.File, ours.Line, ours.Column, ours.Field, ours.Reason, err.Error()}}
	case errors.As(err, &theirs):
		return []Mistake{{theirs.File, theirs.Line, 0, theirs.Field, theirs.Reason, err.Error()}}
	}
	return []Mistake{{Reason: err.Error(), text: err.Error()}}
}

// formatOf tells the formats apart by the fields at the top of a file. Whatever cannot be read is told by package rules.
func formatOf(path string) string {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return Envoy
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostBytes { // to open a pipe could last for ever
		return Rules
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Rules
	}
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return halfWritten(text)
	}
	var fields []string
	if len(document.Content) > 0 && document.Content[0].Kind == yaml.MappingNode {
		for i := 0; i < len(document.Content[0].Content); i += 2 {
			fields = append(fields, document.Content[0].Content[i].Value)
		}
	}
	return formatBy(fields)
}

// formatBy is the format of these fields.
func formatBy(fields []string) string {
	has := func(name string) bool { return slices.Contains(fields, name) }
	if !has("rules") && (has("descriptors") || has("slot_by") || has("http")) {
		return Envoy
	}
	return Rules
}

// halfWritten is the format of what is no YAML, by its lines.
func halfWritten(text []byte) string {
	var fields []string
	for line := range bytes.Lines(text) {
		if name, _, found := bytes.Cut(line, []byte(":")); found {
			fields = append(fields, string(name))
		}
	}
	return formatBy(fields)
}

// mostBytes is what both packages read at most.
const mostBytes = 16 << 20
