package rules

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schema is a JSON Schema, as far as this one goes.
type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Defs        map[string]schema `json:"$defs"`
	Type        string            `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Additional  any               `json:"additionalProperties"`
	OneOf       []schema          `json:"oneOf"`
	Enum        []any             `json:"enum"`
}

// TestTheSchemaIsTheFormat: it has the fields that are read, each with a description, and no others.
func TestTheSchemaIsTheFormat(t *testing.T) {
	text, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	var s schema
	require.NoError(t, json.Unmarshal(text, &s))
	same := func(name string, s schema, fields []string) {
		assert.Equal(t, fields, slices.Sorted(maps.Keys(s.Properties)), name)
		assert.Equal(t, false, s.Additional, name)
		for field, p := range s.Properties {
			assert.NotEmpty(t, p.Description, "%s.%s", name, field)
		}
		for _, field := range s.Required {
			assert.Contains(t, fields, field)
		}
	}
	same("file", s, names(fileFields))
	def := func(name string) schema {
		require.Contains(t, s.Defs, name)
		return s.Defs[name]
	}
	same("defaults", def("defaults"), names(defaultFields))
	same("rule", def("rule"), names(ruleFields))
	same("match", def("matchMapping"), names(matchFields))
	same("limit", def("limitMapping"), names(limitFields))
	same("override", def("override"), names(overrideFields))
	same("skip", def("skip"), names(skipFields))
	same("address", def("address"), names(addressFields))
	same("local", def("local"), names(localFields))
	var listed []string
	for _, p := range def("policy").Enum {
		listed = append(listed, p.(string))
	}
	assert.ElementsMatch(t, names(policies), listed)
	assert.Len(t, s.Defs, 21, "a definition that nothing here knows")
}

func names[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
