package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// schema is the part of JSON Schema that schema.json uses.
type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Defs        map[string]schema `json:"$defs"`
	Type        string            `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Additional  any               `json:"additionalProperties"`
	OneOf       []schema          `json:"oneOf"`
}

// TestSchema_Definitions_HaveTheFieldsOfTheFormat, each with a description.
func TestSchema_Definitions_HaveTheFieldsOfTheFormat(t *testing.T) {
	text := golden.Text(t, "schema.json")
	var s schema
	require.NoError(t, json.Unmarshal([]byte(text), &s))
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
	same("file", s, fieldsAt(t, places["file"]))
	def := func(name string) schema {
		require.Contains(t, s.Defs, name)
		return s.Defs[name]
	}
	for name, place := range places {
		if name != "file" {
			same(name, def(name), fieldsAt(t, place))
		}
	}
	assert.Len(t, s.Defs, 34, "a definition that no test covers")
}

// TestSchema_Policies_AreThoseRegistered: their names, and for each field the policies that have it. Write
// them with -update.
func TestSchema_Policies_AreThoseRegistered(t *testing.T) {
	var names, fields []string
	have := make(map[string][]string)
	for _, k := range policy.Kinds() {
		names = append(names, fmt.Sprintf("        %q", k.Name))
		for _, name := range k.InFile() {
			have[name] = append(have[name], strconv.Quote(k.Name))
		}
	}
	for _, name := range policy.Fields() {
		fields = append(fields, fmt.Sprintf(`        %q: {"properties": {"policy": {"enum": [%s]}, "redisson": false}}`, name,
			strings.Join(have[name], ", ")))
	}
	blocks := golden.Blocks(t, "schema.json", regexp.MustCompile(`("policy": \{\n +"enum": \[\n)[^]]*(\n +\])`),
		func(parts []string) string { return parts[1] + strings.Join(names, ",\n") + parts[2] })
	assert.Equal(t, 1, blocks)
	blocks = golden.Blocks(t, "schema.json", regexp.MustCompile(`(\n {6}"dependentSchemas": \{\n)(?: {8}.*\n)+`),
		func(parts []string) string { return parts[1] + strings.Join(fields, ",\n") + "\n" })
	assert.Equal(t, 1, blocks)
}

// TestSchema_Files_AreValidatedAsByTheParser for valid files, and for mistakes that a schema can
// express.
func TestSchema_Files_AreValidatedAsByTheParser(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	s, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	valid := func(file string) error {
		var document any
		require.NoError(t, yaml.Load([]byte(file), &document))
		text, err := json.Marshal(document) // so that numbers are those of JSON
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		return s.Validate(value)
	}
	documented := golden.Text(t, "testdata/rules.yaml")
	limit := func(text string) string { return one("key: ip, limits: " + text) }
	override := func(text string) string {
		return one("key: method, limits: 1/s, overrides: [{key: GET, " + text + "}]")
	}
	headers := func(n int) string {
		fields := ""
		for i := range n {
			fields += fmt.Sprintf("X-%d: y, ", i)
		}
		return one("ban: true, match: {headers: {" + fields + "}}")
	}
	long := strings.Repeat("x", 128)
	for _, file := range []string{
		documented, "rules: []", "escaped_slashes: allow\non_invalid: on_failure\nmax_waiting: 1000000\nrules: []",
		"domain: " + long + "\nrules: [{name: " + long + ", ban: true}]", headers(32),
		limit("[1/s, 1/m, 1/h, 1/d, 1/w, 1/2s, 1/3s, 1/4s, 1/5s, 1/6s]"),
		"address: {header: x-Real-IP, trusted: '::1', ipv6_bits: 128}\nrules: []", "address: {trusted: unix}\nrules: []",
		limit("' 10 / s '"), limit("10/1m30s"), limit("1/.5s"), limit("1/1000000us"), limit("2/2w"), limit("0/s"),
		limit("{permits: 0, per: 5.s}"), limit("{rate: 1/month, policy: calendar, in: UTC}"),
		limit("{rate: 1/s, name: 'a b'}"), one("limits: {redisson: q}"), limit("{in_flight: 1000000, lease: 30s}"),
		limit("[9/s, {penalty: {denials: 20, within: 1m, for: 10m, renew: true}}]"),
		limit("[9/s, {policy: penalty, name: banned, penalty: {denials: 1, within: 1s, for: 1d}}]"),
		limit("[9/s, {policy: in_flight, in_flight: 8, lease: 30s}]"), override("limits: {in_flight: 3, lease: 1m}"),
		one("limits: {redisson: q, permits: 1, per: s, type: per_client, keep_alive: 1d}"),
		one("key: [all], limits: 1/s"), one("key: [ip, 'constant: ', path:x], match: '/{x}', limits: 1/s"),
		one("key: [cookie:sid, 'query:api key'], limits: 1/s, status: 404, headers: none, refund: [200, 3xx]"),
		one("ban: true, status: 429, refund: 2xx"), "defaults: {refund: 200}\naddress: {ipv4_bits: 24}\nrules: []",
		one("ban: true, match: {}"), one("ban: true, skip: {}"), one("ban: true, match: [a.b/, POST  /ä], key: ip"),
		one("ban: true, match: {grpc: '*', headers: {X: y z}, ranges: 10.0.0.0/8}"),
		one("ban: true, on_failure: {local: 1}, shadow: false, wait: 1s"), "deadline: 106751d\nspread: 1w\nrules: []",
		one("key: ip, limits: 1/s, cost: content_length/010"), one("key: ip, limits: 1/s, cost: header:X"),
		"\ufeffrules: []\r\n...\r\n", one("ban: true, match: {pattern: GET API.example.com./%3F/ä, methods: [HEAD, GET]}"),
		one("key: [method, header:X], limits: 1/s, overrides: [{key: [other, 'y z'], ban: true}, {key: [/a.B/C, x], ban: true}]"),
		"defaults: {key: path:id}\nrules:\n- {name: a, match: /a, ban: true}\n- {name: b, limits: {redisson: q}}\n", // without a key
	} {
		assert.NoError(t, redistest.Err(Parse("f.yaml", []byte(file))), file)
		assert.NoError(t, valid(file), file)
	}
	invalid := []string{
		"escaped_slashes: both\nrules: []", "address: {header: a b}\nrules: []", "address: {trusted: x}\nrules: []",
		"domain: x" + long + "\nrules: []", "rules: [{name: x" + long + ", ban: true}]", headers(33),
		"max_waiting: 1000001\nrules: []",
		limit("-1/s"), limit("1/+5s"), limit("{rate: 1/s, per: s}"), limit("{permits: -1, per: s}"),
		limit("{permits: 1, per: x}"), limit("{rate: 1/s, cells: 1}"), limit("{rate: 1/s, policy: fixed_window, cells: 5}"),
		limit("{policy: pause}"), limit("{policy: pause, most: 1h, rate: 1/s}"), one("key: ip, limits: 1/s, policy: pause"),
		limit("{penalty: {denials: 20, within: 1m}}"), limit("{penalty: {denials: 0, within: 1m, for: 1m}}"),
		limit("{penalty: 20}"), limit("{policy: penalty}"), limit("{policy: penalty, denials: 20, within: 1m, for: 10m}"),
		limit("{penalty: {denials: 20, within: 1m, for: 10m}, rate: 1/s}"), one("key: ip, limits: 1/s, policy: penalty"),
		limit("{penalty: {denials: 20, within: 1m, for: 10m}, policy: pause}"), one("penalty: {denials: 20}, limits: 1/s"),
		limit("{in_flight: 8}"), limit("{in_flight: 8, lease: 30s, per: 1s}"),
		limit("{in_flight: 0, lease: 30s}"), limit("{in_flight: 8, lease: 30s, policy: pause}"),
		one("key: ip, limits: 1/s, policy: in_flight"), one("limits: {redisson: q, in_flight: 8, lease: 1s}"),
		limit("{rate: 1/s, keep_alive: 1h}"), limit("{rate: 1/s, name: ä}"), one("limits: {redisson: ''}"),
		one("limits: {redisson: q, rate: 1/s, cells: 5}"), one("limits: {redisson: q, permits: 5}"),
		one("limits: {redisson: q, rate: 1/s, type: all}"), one("key: 'path:', limits: 1/s"),
		one("ban: true, match: '*.de/'"), one("ban: true, match: {pattern: /a, grpc: /a/b}"),
		one("ban: true, match: {methods: get}"), one("ban: true, match: {headers: {a b: x}}"),
		one("ban: true, match: {headers: {X: 1}}"), one("ban: true, match: {ranges: x}"), one("ban: true, on_failure: {}"),
		one("ban: true, on_failure: {local: 0}"), one("ban: true, cost: content_length/0"), override("ban: false"),
		override("ban: true, unlimited: true"), one("key: method, limits: 1/s, overrides: []"),
	}
	for _, m := range mistakes {
		invalid = append(invalid, m.file)
	}
	for _, file := range invalid {
		assert.Error(t, redistest.Err(Parse("f.yaml", []byte(file))), file)
		assert.Error(t, valid(file), file)
	}
}

// places are files with an unknown field, by the definition of the schema for its mapping.
var places = map[string]string{
	"file": "unknown: 1", "defaults": "defaults: {unknown: 1}", "rule": one("unknown: 1"),
	"matchMapping": one("match: {unknown: 1}"), "limitMapping": one("limits: {unknown: 1}"),
	"penalty":  one("key: ip, limits: {penalty: {unknown: 1}}"),
	"override": one("key: ip, limits: 1/s, overrides: [{unknown: 1}]"), "skip": one("skip: {unknown: 1}"),
	"address": "address: {unknown: 1}", "forward_auth": "forward_auth: {unknown: 1}",
	"local": one("on_failure: {local: 1, unknown: 1}"),
}

// fieldsAt returns the fields that the error of a file with an unknown field names.
func fieldsAt(t *testing.T, file string) []string {
	_, err := Parse("f.yaml", []byte(file))
	require.Error(t, err)
	return strings.Split(golden.Between(t, err.Error(), `unknown field "unknown", want `, "\n"), ", ")
}

// TestPage_Policies_HaveARow in the comparison of docs/choosing.md, with their fields and the words of their keys.
func TestPage_Policies_HaveARow(t *testing.T) {
	page := golden.Text(t, "../docs/choosing.md")
	for _, k := range policy.Kinds() {
		row := golden.Between(t, page, " | `"+k.Name+"`", "\n")
		for _, f := range k.Fields {
			assert.Contains(t, row, "`"+f.Name+"`", k.Name)
		}
		for _, word := range k.Words {
			assert.Contains(t, row, "`"+word, k.Name)
		}
	}
}

// docs/rules.md describes each field of testdata/rules.yaml, which has all. The files that it shows are valid.
func TestPage_File_HasEveryField(t *testing.T) {
	page := golden.Text(t, "../docs/rules.md")
	file := golden.Text(t, "testdata/rules.yaml")
	for _, shown := range golden.Code(page, "yaml") {
		require.NoError(t, redistest.Err(Parse("page.yaml", []byte(shown))))
	}
	s, err := Load("testdata/rules.yaml")
	require.NoError(t, err)
	assert.Equal(t, 7, s.Len())
	for _, place := range places {
		for _, field := range fieldsAt(t, place) {
			if slices.Contains(policy.Fields(), field) {
				continue
			}
			assert.Contains(t, file, field)
			assert.Contains(t, page, "`"+field, "docs/rules.md does not describe it")
		}
	}
	_, err = Parse("rules.yaml", []byte("rules:\n  - name: login\n    match: post /login\n    key: ip\n    limits: 5/mn\n    overides: []\n"))
	require.Error(t, err)
	assert.Equal(t, strings.TrimSpace(golden.Code(page, "console")[0]), err.Error())
}

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
