package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A run takes half an hour: its results must not be lost by an error in the template.
func TestDocument_AllParts_AreShown(t *testing.T) {
	r := &results{Command: "go run", Rounds: 2, Grants: "1,000", pings: []float64{0.002}}
	for _, s := range scenarios() {
		run := runs{s, make(map[string][]figures)}
		for i, key := range s.contenders {
			f := figures{rate: float64(1000 * (i + 1)), p50: time.Millisecond, p99: time.Second, serverCPU: 2, clientCPU: 3,
				allocs: -1}
			if key == "throttled" {
				f.refused = "3% errors"
			}
			run.figures[key] = []figures{f, f}
		}
		r.runs = append(r.runs, run)
	}
	for _, kind := range crowdKinds {
		r.crowds = append(r.crowds,
			crowdRuns{kind.name,
				map[string][]crowdFigures{"ours": {{requests: 1.01}}, "script": {{requests: 500, overtaken: 480}}}})
	}
	r.script = &scriptTimes{scriptCases, make(map[string][]float64), make(map[string][]float64),
		make(map[string][]float64)}
	for _, c := range scriptCases {
		r.script.ours[c.name], r.script.their[c.name], r.script.ratios[c.name] = []float64{8}, []float64{10}, []float64{0.8}
	}
	r.expiry = &expiry{1000,
		[]expiryCase{{name: "all of them", ours: []expiryRun{{time.Millisecond, 4}},
			their: []expiryRun{{time.Second, 1}}}}}
	r.memory = memory{"ours": {2}, "script": {120}}
	r.allocations = allocations{{"granted", 3}}
	dir := t.TempDir()
	require.NoError(t, r.write(dir))
	text, err := os.ReadFile(filepath.Join(dir, "performance", "tables.md"))
	require.NoError(t, err)
	for _, want := range []string{
		"## Targets", "![One name, granting](granting.svg)", "### Granting", "### Denying", "### Contexts that end",
		"**a deadline, granting, 1 caller**",
		"| cancellable, denying, 1 caller: decisions per second to Redisson's script with the same context | at least 1.00 | 0.50 | **missed** |", "WithDenialCache", "denial cache, 256 callers: denials per second | at least 2,000,000 | 2,000 | **missed** |", "## Mixed",
		"A lone PING takes 2 ms. 2,048 callers that each wait for their answer can have no more than 1,024,000 decisions per second, then, which is 512 times " +
			"Redisson's script as measured below, and 341 times what the script does without the link",
		"## Many names", "## An Observer",
		"| with an Observer, 256 callers: decisions per second to those without one | at least 0.95 | 2.00 | reached |",
		"## A slow link", "| one by one | this library | 1.01 (1.01..1.01) | 0 | 0 |",
		"| a grant | 8.00 | 10.0 | 0.80 (0.80..0.80) |", "| all of them | Redisson's script | 1,000 (1,000..1,000) ms | 1 |",
		"1,000 grants taken", "| granted | 3.00 |",
		"| throttled v2 | not reported: 3% errors |",
		"server time of one call, a grant: to Redisson's script | at most 0.88 | 0.80 | reached |",
	} {
		require.Contains(t, string(text), want)
	}
	for _, f := range plots {
		require.FileExists(t, filepath.Join(dir, "performance", f.file))
	}
}

func TestDocument_NoParts_HasNoEmptySections(t *testing.T) {
	text, err := new(results).document()
	require.NoError(t, err)
	require.NotContains(t, text, "## ")
	require.NotContains(t, text, "|")
}

// Each row of the page is a row of the targets, with the same figure.
func TestPerformancePage_Figures_AreThoseOfTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	tables, err := os.ReadFile("../../docs/performance/tables.md")
	require.NoError(t, err)
	measured := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| (?:at least|at most) \S+ \| (\S+) \|`).FindAllStringSubmatch(string(tables), -1) {
		measured[row[1]] = row[2]
	}
	_, figures, _ := strings.Cut(string(page), "## Figures")
	figures, _, _ = strings.Cut(figures, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (.+:.+) \| (\S+) \|$`).FindAllStringSubmatch(figures, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		if strings.HasPrefix(row[1], "---") {
			continue
		}
		require.Equal(t, measured[row[1]], row[2], row[1])
	}
}
