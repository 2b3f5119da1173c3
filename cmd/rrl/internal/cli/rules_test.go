package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// TestRulesCheck_Files_ReportContentOrErrors: without a Redis. FILE stands for the file.
func TestRulesCheck_Files_ReportContentOrErrors(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://no-such-host.invalid:1")
	for _, test := range []struct {
		name, file, text string
		code             int
		want             []string
	}{
		{"rules", "a.yaml", "rules:\n  - {name: x, key: ip, limits: 5/m}\n", 0, []string{"FILE: 1 rule"}},
		{"a warning", "a.yaml", "rules: [{name: x, match: {ranges: '::1'}, ban: true}]\n", 0,
			[]string{`FILE: warning: line 1: the rule "x" bans ranges: requests of unknown addresses pass it`, "FILE: 1 rule"}},
		{"rules as JSON", "a.json", `{"domain": "http", "rules": []}`, 0, []string{"FILE: 0 rules"}},
		{"Envoy's", "a.yaml", "domain: edge\ndescriptors:\n  - {key: a, limits: [{unit: day, requests_per_unit: 9}, {per: 1s, requests_per_unit: 2}]}\n", 0, []string{"FILE: Envoy's format, 2 limits, domain edge"}},
		{"Envoy's as JSON", "a.json", `{"domain": "edge", "descriptors": []}`, 0,
			[]string{"FILE: Envoy's format, 0 limits, domain edge"}},
		{"mistakes in rules", "a.yaml", "rules:\n  - name: x\n    key: ip\n    limits: 5/q\n  - {name: y, nam: z, limits: 1/s, key: ip}\n", 2, []string{`FILE:4:13: rules[0].limits: no unit "q"`, `FILE:5:15: rules[1].nam: unknown field "nam"`}},
		{"mistakes in Envoy's", "a.yaml", "domain: edge\ndescriptors:\n  - {key: a, rate_limit: {unit: eon, requests_per_unit: 1}}\n  - {keys: b}\n", 2, []string{`FILE:3: descriptors[0].rate_limit.unit: is "eon"`, `FILE:4: descriptors[1].keys: unknown field "keys"`}},
		{"half of rules", "a.yaml", "rules:\n  - name: x\n    limits: {a: b, \n", 2,
			[]string{"FILE:4:1: no YAML: did not find expected node content"}},
		{"half of Envoy's", "a.yaml", "domain: edge\ndescriptors:\n  - key: [a\n", 2,
			[]string{"FILE:4: no YAML: did not find expected ',' or ']'"}},
		{"empty", "a.yaml", "", 2, []string{"FILE: the file is empty"}},
		{"both", "a.yaml", "rules: []\ndescriptors: []\n", 2, []string{`FILE:2:1: descriptors: unknown field "descriptors"`}},
		{"a list", "a.yaml", "- descriptors: a\n", 2, []string{"FILE:1:1: a list, want a mapping"}},
		{"odd names", "a\x1b[2J\n.yaml", "domain: \"e\\e[2J\\nx\"\ndescriptors: []\n", 0,
			[]string{`a\x1b[2J\n.yaml: Envoy's format, 0 limits, domain e\x1b[2J\nx`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := written(t, test.file, test.text)
			r := tool("rules", "check", file)
			require.Equal(t, test.code, r.code, r.out)
			report := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
			require.Len(t, report, len(test.want), r.out)
			for i, want := range test.want {
				assert.Contains(t, report[i], strings.Replace(want, "FILE", file, 1))
			}
			assert.Equal(t, test.code == exitDone, r.err == "", r.err)
		})
	}
}

func TestRulesCheck_NoRegularFile_IsReportedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	folder := filepath.Dir(written(t, "a.yaml", "domain: edge\n"))
	twice := t.TempDir()
	require.NoError(t, os.CopyFS(twice, os.DirFS(folder)))
	require.NoError(t, os.WriteFile(filepath.Join(twice, "b.yaml"), []byte("domain: edge\n"), 0o600))
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{pipe}, 2, pipe + ": it is no regular file"},
		{[]string{"/nowhere"}, 2, "/nowhere: cannot be read: no such file or directory"},
		{[]string{folder}, 0, folder + ": Envoy's format, 0 limits, domain edge"},
		{[]string{twice}, 2, twice + `/b.yaml: domain: is "edge", which ` + twice + "/a.yaml has already"},
		{[]string{twice, "--merge"}, 0, twice + ": Envoy's format, 0 limits, domain edge"},
	} {
		r := tool(append([]string{"rules", "check"}, test.args...)...)
		require.Equal(t, test.code, r.code, "%q: %s", test.args, r.out+r.err)
		require.Contains(t, r.out, test.want)
	}
}

func TestRulesCheck_JSON_HasEachFile(t *testing.T) {
	right, wrong := written(t, "a.yaml", "rules: []\n"), written(t, "b.yaml",
		"domain: edge\ndescriptors: [{key: a, value: [b]}]\n")
	r := ends(t, exitError, "rules", "check", right, wrong, "-o", "json")
	require.Equal(t, "rrl: 1 error in 1 of 2 files\n", r.err)
	var files []checkedFile
	require.NoError(t, json.Unmarshal([]byte(r.out), &files))
	require.Equal(t, []checkedFile{
		{File: right, Format: rulesFormat, Right: true, Errors: []*rulefile.Problem{}},
		{File: wrong, Format: envoyFormat, Errors: []*rulefile.Problem{{File: wrong, Line: 2, Field: "descriptors[0].value",
			Reason: "a list, want a text"}}},
	}, files)
}
