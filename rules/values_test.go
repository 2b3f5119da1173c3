package rules

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// lists are the fields whose values are lists of the decoder: a file with another value, and how its error
// begins to list them.
var lists = map[string]struct{ file, want string }{
	"headers": {one("ban: true, headers: another"), `"another", want one of `},
	"status":  {one("ban: true, status: 418"), "418, want "},
	"key":     {one("limits: 1/s, key: another"), `no key "another", want a text: `},
}

// valuesOf returns the values that the error of a field lists.
func valuesOf(t *testing.T, field string) []string {
	_, err := Parse("f.yaml", []byte(lists[field].file))
	require.Error(t, err)
	list := golden.Between(t, err.Error(), lists[field].want, "\n")
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

// TestValues_OfLists_AreDocumented in docs/rules.md and testdata/rules.yaml.
func TestValues_OfLists_AreDocumented(t *testing.T) {
	page := golden.Text(t, "../docs/rules.md")
	file := golden.Text(t, "testdata/rules.yaml")
	for field := range lists {
		row := golden.Between(t, page, "\n| `"+field+"` |", "\n")
		if field == "key" {
			row = golden.Between(t, page, "\n### Key\n", "\n###")
		}
		values := valuesOf(t, field)
		assert.Greater(t, len(values), 3, field)
		for _, value := range values {
			kind, name, _ := strings.Cut(value, ":") // as header:NAME
			assert.Regexp(t, `\b`+value+`\b`, row, "docs/rules.md: %s", field)
			assert.Regexp(t, field+`:.*[^:\w]`+kind+map[bool]string{true: ":"}[name != ""], file, "rules.yaml: %s", field)
		}
	}
}

// TestValues_OfLists_AreThoseOfTheSchema, in a rule and in the defaults.
func TestValues_OfLists_AreThoseOfTheSchema(t *testing.T) {
	text := golden.Text(t, "schema.json")
	var s struct {
		Defs map[string]struct {
			Pattern    string
			Properties map[string]struct{ Enum []any }
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	for _, field := range []string{"headers", "status"} {
		for _, def := range []string{"rule", "defaults"} {
			var values []string
			for _, value := range s.Defs[def].Properties[field].Enum {
				text, err := json.Marshal(value)
				require.NoError(t, err)
				values = append(values, strings.Trim(string(text), `"`))
			}
			assert.Equal(t, valuesOf(t, field), values, "%s.%s", def, field)
		}
	}
	pattern := s.Defs["keyPart"].Pattern
	assert.NotRegexp(t, pattern, "another")
	kinds := regexp.MustCompile(`[a-z]{2,}_?`).FindAllString(pattern, -1)
	for _, value := range valuesOf(t, "key") {
		if value == "all" {
			continue // no part of a list
		}
		assert.Regexp(t, pattern, value)
		kind, _, _ := strings.Cut(value, ":")
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return strings.Contains(kind, k) })
	}
	assert.Empty(t, kinds, "keys of the schema that no file has")
}

// TestValues_OfKey_AreRead: a request has each part of a key.
func TestValues_OfKey_AreRead(t *testing.T) {
	handler := func(key string) int {
		set := parsed(t, one("match: '/{WILDCARD}', ban: true, overrides: [{key: "+
			map[bool]string{true: "TEXT", false: "x"}[strings.HasPrefix(key, "constant")]+", unlimited: true}], key: '"+key+"'"))
		return status(set.Middleware(offline)(&ok{}), "GET /x?NAME=x", "NAME", "x", "Cookie", "NAME=x")
	}
	for _, value := range valuesOf(t, "key") {
		switch value {
		case "all", "ip", "method": // whose keys are none of a request's own texts
		default:
			assert.Equal(t, good, handler(value), value)
		}
	}
}
