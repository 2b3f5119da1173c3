package rls_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

func TestLoad_Mistakes_NamePositionAndReason(t *testing.T) {
	const d = "domain: x\ndescriptors:\n"
	for _, c := range []struct{ name, text, want string }{
		{"no domain", "descriptors:\n- key: a\n", `FILE:1: domain: is empty, want a name that no other file has`},
		{"no YAML", "'''", "FILE:1: no YAML: found unexpected end of stream (while scanning a quoted scalar)"},
		{"unknown in a descriptor", d + "  - key: a\n    ratelimit: {unit: day, requests_per_unit: 5}\n",
			`FILE:4: descriptors[0].ratelimit: unknown field "ratelimit"`},
		{"misplaced", d + "  - key: a\n    rate_limit: {unit: day, requests_per_unit: 5, shadow_mode: true}\n",
			`FILE:4: descriptors[0].rate_limit.shadow_mode: unknown field "shadow_mode", want aligned`},
		{"descriptors that are text", d + "  - a\n", `FILE:3: descriptors[0]: the text "a", want a mapping`},
		{"descriptors that are no list", "domain: x\ndescriptors: {key: a}\n", "FILE:2: descriptors: a mapping, want a list"},
		{"an empty descriptor", d + "  -\n", "FILE:3: descriptors[0].key: is empty, want the key of the request's entry"},
		{"one descriptor twice by its underscore", d + "  - {key: a, value: b_c}\n  - {key: a_b, value: c}\n",
			`FILE:4: descriptors[1]: "a_b_c" is defined in FILE:3 already`},
		{"one twice further down", d + "  - key: a\n    descriptors:\n      - key: b\n      - key: b\n",
			`FILE:6: descriptors[0].descriptors[1]: "b" is defined in FILE:5 already`},
		{"the unit unknown", d + "  - {key: a, rate_limit: {unit: unknown, requests_per_unit: 5}}\n",
			`rate_limit.unit: is "unknown", want`},
		{"unit and per", d + "  - {key: a, rate_limit: {unit: day, per: 1h, requests_per_unit: 5}}\n",
			"rate_limit.per: is given beside unit"},
		{"no number", d + "  - {key: a, rate_limit: {unit: day}}\n",
			"rate_limit.requests_per_unit: is missing; 0 refuses everything"},
		{"a negative number", d + "  - {key: a, rate_limit: {unit: day, requests_per_unit: -1}}\n",
			`rate_limit.requests_per_unit: -1, want a whole number, 0 to 4294967295`},
		{"a number too large", d + "  - {key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n",
			`requests_per_unit: 4294967296, want a whole number`},
		{"unlimited with a unit", d + "  - {key: a, rate_limit: {unlimited: true, unit: day}}\n",
			`rate_limit.unit: is "day", but the limit is unlimited`},
		{"an empty replaces",
			d + "  - {key: a, rate_limit: {name: me, unit: day, requests_per_unit: 1, replaces: [{name: }]}}\n",
			"rate_limit.replaces[0].name: is empty"},
		{"replaces itself",
			d + "  - {key: a, rate_limit: {name: me, unit: day, requests_per_unit: 1, replaces: [{name: me}]}}\n",
			`rate_limit.replaces: names "me", which is this limit itself`},
		{"shared without a wildcard", d + "  - {key: a, value: b, share_threshold: true}\n",
			`descriptors[0].share_threshold: is set, but neither the value nor the key "a" has a *`},
		{"metadata that is a list", d + "  - {key: a, metadata: [1]}\n", "descriptors[0].metadata: a list, want a mapping"},
		{"a calendar of hours", d + "  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1, policy: calendar}}\n",
			`rate_limit.unit: is "hour", want day, week, month or year for policy: calendar`},
		{"a pause", d + "  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1, policy: pause, most: 1h}}\n",
			"rate_limit.policy: policy pause has no rate, and one is needed here"},
		{"calls in flight", d + "  - {key: a, rate_limit: {in_flight: 8, lease: 30s}}\n",
			"rate_limit.in_flight: policy in_flight has no rate, and one is needed here"},
		{"a bucket without room",
			d + "  - {key: a, rate_limit: {per: 1s, requests_per_unit: 1, policy: token_bucket, capacity: 0}}\n",
			"rate_limit.capacity: 0, want a whole number of permits, 1 to 2^53"},
		{"two limits of one key",
			d + "  - {key: a, limits: [{unit: day, requests_per_unit: 1}, {unit: day, requests_per_unit: 2}]}\n",
			"would count in the same key"},
		{"unlimited among several", d + "  - {key: a, limits: [{unit: day, requests_per_unit: 1}, {unlimited: true}]}\n",
			"descriptors[0].limits: has an unlimited limit among several"},
		{"a multiplier, which the reference does not have either",
			d + "  - {key: a, rate_limit: {unit: second, unit_multiplier: 30, requests_per_unit: 60}}\n",
			`rate_limit.unit_multiplier: unknown field "unit_multiplier", want aligned`},
		{"one key with different children", d + "  - {key: a, descriptors: [{key: b}]}\n  - {key: a, descriptors: [{key: c}]}\n",
			`FILE:4: descriptors[1]: "a" is defined in FILE:3 already: merge the two`},
		{"too deep", "domain: x\n" + nested(100), "want at most 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(folder(t, c.text), "0.yaml")
			_, err := rls.Load(file, false)
			require.NotEmpty(t, rulefile.ProblemsOf(err))
			assert.Equal(t, file, rulefile.ProblemsOf(err)[0].File)
			assert.Contains(t, err.Error(), strings.ReplaceAll(c.want, "FILE", file))
			assert.Less(t, len(err.Error()), 10_000)
		})
	}
}

func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%[1]sdescriptors:\n%[1]s- key: a\n", strings.Repeat("  ", i))
	}
	return b.String()
}

func TestLoad_SeveralMistakes_AreAllReported(t *testing.T) {
	_, err := rls.Load(folder(t,
		"domain: x\ndescriptors:\n  - {key: a, rate_limit: {unit: eon, requests_per_unit: 1}}\n  - {keys: b}\n",
		"domain: y\nfoo: 1\n"), false)
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 3, err.Error())
}

// Whenever the file is read.
func TestLoad_SeveralMistakesOfOneLimit_ReportsTheFirst(t *testing.T) {
	dir := folder(t,
		"domain: d\ndescriptors:\n  - {key: a, rate_limit: {per: 1s, requests_per_unit: 1, warm_up: 3s, capacity: 3, burst: 1s}}\n")
	for range 50 {
		_, err := rls.Load(dir, false)
		require.ErrorContains(t, err, "rate_limit.warm_up: warm_up has no meaning for fixed_window")
	}
}

// Anchors, merges, numbers and flags of YAML 1.1.
func TestLoad_YAML_IsReadWhole(t *testing.T) {
	rules, err := rls.Load(folder(t, `
---
domain: yaml
descriptors:
  - key: a
    value: 404
    rate_limit: &limit
      unit: minute
      requests_per_unit: 1_000
  - key: b
    rate_limit:
      <<: *limit
      requests_per_unit: 0x10
  - &c
    key: c
    value: ~
    shadow_mode: yes
    rate_limit: *limit
    metadata: {deep: [1, 2.5, true, null, {text: on}]}
  - {key: d, value: true, rate_limit: {unlimited: on}}
  - {<<: *c, key: e}
  - {key: f, rate_limit: }
...
`), false)
	require.NoError(t, err)
	assert.Equal(t, `yaml.a_404: unit=MINUTE requests_per_unit=1000, shadow_mode: false, quota_mode: false
yaml.b: unit=MINUTE requests_per_unit=16, shadow_mode: false, quota_mode: false
yaml.c: unit=MINUTE requests_per_unit=1000, shadow_mode: true, quota_mode: false
yaml.d_true: unlimited, shadow_mode: false, quota_mode: false
yaml.e: unit=MINUTE requests_per_unit=1000, shadow_mode: true, quota_mode: false
`, rules.String())
	assert.Equal(t, 5, rules.Len())
}

// With merge, several files may have one domain.
func TestLoad_Folder_ReadsItsYAMLFiles(t *testing.T) {
	one, two := "domain: x\ndescriptors: [{key: a}]\n",
		"domain: x\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]\n"
	assert.ErrorContains(t, redistest.Err(rls.Load(folder(t, one, two), false)), `1.yaml: domain: is "x", which `)
	rules, err := rls.Load(folder(t, one, two), true)
	require.NoError(t, err)
	assert.Contains(t, rules.String(), "x.b: unit=DAY")
	assert.Equal(t, []string{"x"}, rules.Domains())
	_, err = rls.Load(folder(t, two, two), true)
	assert.ErrorContains(t, err, `1.yaml:2: descriptors: "b" is defined in `)

	dir := folder(t, one)
	for name, text := range map[string]string{".hidden.yaml": "{", "readme.md": "{", "more.yml": "domain: y\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, redistest.Err(rls.Load(dir, false)))

	assert.ErrorContains(t, redistest.Err(rls.Load(t.TempDir(), false)), "has no file whose name ends in .yaml or .yml")
}

// BenchmarkLoad reads ten thousand descriptors, as a reload does.
func BenchmarkLoad(b *testing.B) {
	var text strings.Builder
	text.WriteString("domain: many\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text,
			"  - key: tenant\n    value: t%d\n    rate_limit:\n      unit: minute\n      requests_per_unit: %d\n", i, i+1)
	}
	file := filepath.Join(folder(b, text.String()), "0.yaml")
	for b.Loop() {
		rules, err := rls.Load(file, false)
		require.NoError(b, err)
		require.Equal(b, 10_000, rules.Len())
	}
}
