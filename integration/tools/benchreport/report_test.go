package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// Two rounds in which the machine was slow and fast, one benchmark that failed, and all that the
// pictures show.
const output = `goos: linux
redisson: 4.7.0
round: 1
BenchmarkGranting/callers=256/library=rratelimiter-2 	 100	 100.0 ns/op	 2000 p99-ns	 0.5 calls/op	 300 server-ns/op	 1000 client-ns/op
BenchmarkGranting/callers=256/library=script-2 	 100	 1000 ns/op	 9000 p99-ns	 1 calls/op	 6000 server-ns/op	 4000 client-ns/op
BenchmarkGranting/callers=256/library=redis_rate-2 	 100	 5000 ns/op	 600 server-ns/op	 9900 client-ns/op
BenchmarkGranting/callers=256/library=ulule+8pipelines-2 	 100	 500.0 ns/op	 7000 p99-ns	 700 server-ns/op	 1300 client-ns/op
--- FAIL: BenchmarkGranting/callers=256/library=throttled
    measure_test.go:71: 0 decisions are too few
--- FAIL: BenchmarkGranting/callers=256
--- FAIL: BenchmarkGranting
BenchmarkServerTime/call=denial-2 	 1	 0 ns/op	 9000 script-server-ns	 4500 server-ns	 0.5 x-script
BenchmarkExpiry/grants=all/library=rratelimiter-2 	 1	 3000000 ns/op	 130000 longest-ns
round: 2
BenchmarkGranting/callers=256/library=script-2 	 100	 4000 ns/op	 9000 p99-ns	 1 calls/op	 6000 server-ns/op	 4000 client-ns/op
BenchmarkGranting/callers=256/library=rratelimiter-2 	 100	 200.0 ns/op	 2000 p99-ns	 0.5 calls/op	 300 server-ns/op	 1200 client-ns/op
`

const someFloors = `
Granting/callers=256   rratelimiter  decisions/s    script  >=14     granting, 256: to Redisson's script
Granting/callers=256   rratelimiter  cpu-sec/op     go      <=0.5    granting, 256: CPU to the best other Go library
Granting/callers=256   rratelimiter  server-sec/op  script  <=0.0333 granting, 256: server CPU to Redisson's script
Denying/callers=256    rratelimiter  decisions/s    script  >=12     denying, 256: to Redisson's script
ServerTime             denial        x-script       -       <=0.75   server time, denial: to Redisson's script
Expiry/grants=all      rratelimiter  longest-sec    -       <=0.002  expiry, all: longest call
`

func readOutput(t *testing.T, text string) *results {
	file := filepath.Join(t.TempDir(), "bench.txt")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	r, err := read(file)
	require.NoError(t, err)
	return r
}

func TestRatio_Rounds_AreCompared(t *testing.T) {
	r := readOutput(t, output)
	const table = "Granting/callers=256"
	require.Equal(t, "15.0 (10.0..20.0)", r.ratio(table, "rratelimiter", "script", "decisions/s").String())
	require.Equal(t, "ulule+8pipelines", r.best(table, "go", "decisions/s"))
	require.Equal(t, "redis_rate", r.best(table, "go", "server-sec/op"))
	require.Equal(t, "redis_rate", r.best(table, "go-prompt", "decisions/s"), "a call of 8pipelines waits for others")
	require.InDelta(t, 5, r.ratio(table, "rratelimiter", "ulule+8pipelines", "decisions/s").median, 1e-9)
	require.Equal(t, "–", r.ratio(table, "rratelimiter", "throttled", "decisions/s").String())
	require.Equal(t, 2, r.rounds)
	require.Equal(t, []string{"BenchmarkGranting/callers=256/library=throttled: 0 decisions are too few"}, r.failed)
	require.Equal(t, []string{"goos: linux", "redisson: 4.7.0"}, r.machine)
}

func TestFloorTable_Lines_SayWhichIsBelow(t *testing.T) {
	r := readOutput(t, output)
	table := floorTable(r.check(floors(someFloors)))
	for _, row := range []string{
		"| granting, 256: to Redisson's script | at least 14.0 | 15.0 (10.0..20.0) | 15.0 (10.0..20.0) |  |",
		"| granting, 256: CPU to the best other Go library | at most 0.50 | 0.65 (0.65..0.65) | 5.00 (5.00..5.00) | **above** |",
		"| granting, 256: server CPU to Redisson's script | at most 0.033 | 0.05 (0.05..0.05) | 15.0 (10.0..20.0) | **above** |",
		"| server time, denial: to Redisson's script | at most 0.75 | 0.50 (0.50..0.50) | – |  |",
		"| expiry, all: longest call | at most 2.00 ms | 130 us (130 us..130 us) | – |  |",
	} {
		require.Contains(t, table, row)
	}
	require.NotContains(t, table, "denying", "it was not measured")
	require.Equal(t, "The run missed 2 of 5 floors.", verdict(r.check(floors(someFloors))))
}

func TestRenewed_Ratios_AreTheWorstRunLessATenth(t *testing.T) {
	better := strings.ReplaceAll(output, "100.0 ns/op", "50.0 ns/op")
	worst := strings.NewReplacer(">=14  ", ">=13.5", "<=0.5   ", "<=0.715 ", "<=0.0333", "<=0.055 ")
	require.Equal(t, worst.Replace(someFloors),
		renewed(someFloors, []*results{readOutput(t, better), readOutput(t, output)}))
}

func TestWithTables_Blocks_HaveTheirColumns(t *testing.T) {
	const page = "<!-- bench: run -->\nold\n<!-- end -->\n" +
		"<!-- bench: Granting/callers=256 p99-sec -->\n<!-- end -->\n<!-- bench: Names/none -->\nold\n<!-- end -->\n"
	require.Equal(t, `<!-- bench: run -->
verdict
<!-- end -->
<!-- bench: Granting/callers=256 p99-sec -->
| | p99 |
| --- | --: |
| rratelimiter | 2.00 us |
| ulule+8pipelines | 7.00 us |
| script | 9.00 us |
| redis_rate | – |
<!-- end -->
<!-- bench: Names/none -->
old
<!-- end -->
`, readOutput(t, output).withTables(page, "verdict"))
}

func TestDocument_Sections_HaveTheirTables(t *testing.T) {
	r := readOutput(t, output)
	text := r.document(r.check(floors(someFloors)))
	require.NotRegexp(t, `(?m)^@`, text)
	require.Contains(t, text, "- goos: linux\n- redisson: 4.7.0\n- rounds: 2\n")
	require.Contains(t, text, `### Granting

`+"`Granting/callers=256`"+`

| | decisions/s | x script (min..max) | CPU | server CPU | client CPU | p99 | script calls |
| --- | --: | --: | --: | --: | --: | --: | --: |
| rratelimiter | 7,500,000 | 15.0 (10.0..20.0) | 1.40 us | 300 ns | 1.10 us | 2.00 us | 0.50 |
`)
	require.Contains(t, text, "| denial | 4.50 us | 9.00 us | 0.50 |")
	// Each benchmark has its section, but those that make bench runs only by name.
	parts := regexp.MustCompile(`(?m)^PART += (\S+)#`).FindStringSubmatch(golden.Text(t, "../../../Makefile"))
	require.NotNil(t, parts)
	only := strings.Split(parts[1], "|")
	sources, err := filepath.Glob("../../benchmarks/*_test.go")
	require.NoError(t, err)
	for _, file := range sources {
		for _, part := range strings.Split(golden.Text(t, file), "\nfunc Benchmark")[1:] {
			name, _, _ := strings.Cut(part, "(")
			has := strings.Contains(documentText, "\n@"+name+"\n")
			require.NotEqual(t, slices.Contains(only, name), has, "%s in %s", name, file)
		}
	}
}

func TestTable_FixedLoad_SubtractsTheLoad(t *testing.T) {
	const name = "FixedLoad/rate=20000"
	r := readOutput(t, `round: 1
BenchmarkFixedLoad/rate=20000/library=FixedWindow-2 1 50000 ns/op 9000 server-ns/op 40000 client-ns/op
BenchmarkFixedLoad/rate=20000/library=x-time-rate-2 1 50000 ns/op 100 server-ns/op 25000 client-ns/op
`)
	require.Equal(t, `| | client CPU | above the load's own |
| --- | --: | --: |
| x-time-rate | 25.0 us | – |
| FixedWindow | 40.0 us | 15.0 us |
`, r.table(name, "client-sec/op", "own-client-sec/op"))
}

func TestDraw_EachPicture_IsWritten(t *testing.T) {
	var text strings.Builder
	for _, table := range []string{"Granting", "Denying", "Link/answer=granted"} {
		for i, row := range []string{"rratelimiter", "ulule", "script", "redisson-async", "empty-script", "x-time-rate"} {
			for _, callers := range []int{1, 2048} {
				fmt.Fprintf(&text, "Benchmark%s/callers=%d/library=%s-2 1 %d00 ns/op %[4]d000 p99-ns %[4]d0 server-ns/op\n",
					table, callers, row, i+1)
			}
		}
	}
	dir := t.TempDir()
	require.NoError(t, readOutput(t, text.String()).draw(dir))
	for _, d := range drawn {
		require.FileExists(t, filepath.Join(dir, d.file))
	}
	require.ErrorContains(t, readOutput(t, output).draw(dir), "was not measured")
}

func TestWithFigures_MeasuredRows_AreReplaced(t *testing.T) {
	const page = "| granting, 256: CPU to the best other Go library | – | 7.00 |\n| expiry, all-but-one: longest call | 8 ms | – |\n"
	require.Equal(t, "| granting, 256: CPU to the best other Go library | 0.65 | 5.00 |\n| expiry, all-but-one: longest call | 8 ms | – |\n",
		withFigures(page, readOutput(t, output).check(floors(someFloors))))
}

// Each figure of the page is one of the floors, with the same value.
func TestPerformancePage_Figures_AreThoseOfTheTables(t *testing.T) {
	page := golden.Text(t, "../../../docs/performance.md")
	tables := golden.Text(t, "../../../docs/performance/tables.md")
	measured := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (.+: .+) \| at [^|]+ \| (\S+( [a-z]+)?)( \([^|]+\))? \|`).FindAllStringSubmatch(tables, -1) {
		measured[row[1]] = row[2]
	}
	titles := make(map[string]bool)
	for _, f := range floors(floorsText) {
		titles[f.title] = true
	}
	rows := figureRow.FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		require.True(t, titles[row[1]], row[1])
		if row[2] != none { // not measured yet
			require.Equal(t, measured[row[1]], row[2], row[1])
		}
	}
}

func TestSeconds_Units_KeepThreeDigits(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0.00 ns", 1.7e-7: "170 ns", 0.0009999: "1.00 ms", 0.0123: "12.3 ms", 3: "3.00 s",
	} {
		require.Equal(t, want, seconds(n))
	}
}
