package main

import (
	_ "embed"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

//go:embed tables.md.tmpl
var documentText string

// results are the measurements of a run; those that it did not make are empty.
type results struct {
	Command     string
	Machine     []string
	Rounds      int
	Seconds     float64
	Warmup      float64
	Grants      string
	runs        []runs
	crowds      []crowdRuns
	script      *scriptTimes
	expiry      *expiry
	memory      memory
	allocations allocations
	pings       []float64
	plotted     []figure
}

// write draws the plots and writes the tables into the folder performance.
func (r *results) write(dir string) error {
	folder := filepath.Join(dir, "performance")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range plots {
		drawn, err := f.save(folder, r.runs)
		if err != nil {
			return fmt.Errorf("%s: %w", f.file, err)
		}
		if drawn {
			r.plotted = append(r.plotted, f)
		}
	}
	text, err := r.document()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance", "tables.md"), []byte(text), 0o644)
}

func (r *results) document() (string, error) {
	t, err := template.New("tables.md").Parse(documentText)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if err := t.Execute(&text, r); err != nil {
		return "", err
	}
	return text.String(), nil
}

// The template shows the methods below. Each returns nothing without a measurement.

func (r *results) Targets() string {
	all := r.targets()
	if len(all) == 0 {
		return ""
	}
	return targetTable(all)
}

// Pools returns how many connections each client has.
func (r *results) Pools() string {
	processors := runtime.GOMAXPROCS(0)
	return fmt.Sprintf("go-redis has its default of 10 connections a processor, %d here, and up to %d more for "+
		"pipelines; go-redisstore %d, since by itself its pool keeps none and fails above 100 callers; rueidis its "+
		"default of %d, or where each call takes one (DisableAutoPipelining), up to %s; Redisson its default of 24 to 64",
		10*processors, goredis.DefaultPipelinePoolSize, redigoConnections, 1<<min(2,
			bits.Len(uint(processors))-1), thousands(rueidis.DefaultPoolSize))
}

func (r *results) GoRedisDelay() string { return seconds(goRedisDelay.Seconds()) }
func (r *results) RueidisDelay() string { return seconds(rueidisDelay.Seconds()) }

func (r *results) Plots() []figure { return r.plotted }

func (f figure) File() string  { return f.file }
func (f figure) Title() string { return f.title }

// Part returns the tables of a part, after its ratios to Redisson's script if it has several
// numbers of callers.
func (r *results) Part(part string) string {
	var chosen []runs
	for _, found := range r.runs {
		if found.part == part {
			chosen = append(chosen, found)
		}
	}
	var tables []string
	if len(chosen) > 1 {
		tables = append(tables, ratioTable(chosen))
	}
	for _, found := range chosen {
		tables = append(tables, found.table())
	}
	return strings.Join(tables, "\n")
}

// ratioTable shows how decisions per second compare with those of Redisson's script, scenario by
// scenario.
func ratioTable(all []runs) string {
	var t strings.Builder
	t.WriteString("Decisions per second, to Redisson's script in the same round: median (lowest..highest)\n\n| |")
	for _, r := range all {
		t.WriteString(" " + r.title + " |")
	}
	t.WriteString("\n| --- |" + strings.Repeat(" --: |", len(all)) + "\n")
	for _, s := range contenders {
		row, measured := "| "+s.title+" |", false
		for _, r := range all {
			cell := ""
			if why := r.refused(s.key); why != "" {
				why, _, _ = strings.Cut(why, ":")
				cell = why
			} else if len(r.figures[s.key]) > 0 {
				cell = r.ratio(s.key, "script", rateOf).String()
			}
			measured = measured || cell != ""
			row += " " + cell + " |"
		}
		if measured && s.key != "script" {
			t.WriteString(row + "\n")
		}
	}
	return t.String()
}

// Bound returns the bound of the link: a caller has at most one decision in each round trip.
func (r *results) Bound() string {
	const callers = 2048
	run, ok := r.find("link", callers, allGranted)
	script := run.spread("script", rateOf).median
	if !ok || len(r.pings) == 0 || script == 0 {
		return ""
	}
	ping := spreadOf(r.pings).median
	text := fmt.Sprintf("A lone PING takes %s. %s callers that each wait for their answer can have no more than %s decisions per second, "+
		"then, which is %s times Redisson's script as measured below", seconds(ping), thousands(callers),
		thousands(callers/ping), short(callers/ping/script))
	if near, ok := r.find("granting", callers, allGranted); ok {
		// With so many callers Redis bounds the script, and a link only delays it.
		text += fmt.Sprintf(", and %s times what the script does without the link and the processor time that the proxy takes",
			short(callers/ping/near.spread("script", rateOf).median))
	}
	return text + "."
}

func (r *results) Crowd() string {
	if len(r.crowds) == 0 {
		return ""
	}
	var t strings.Builder
	t.WriteString("| permits return | | Redis calls per granted permit | callers overtaken | not served at all |\n| --- | --- | --: | --: | --: |\n")
	for _, c := range r.crowds {
		for _, s := range contenders {
			all := c.figures[s.key]
			if len(all) == 0 {
				continue
			}
			if i := slices.IndexFunc(all, func(f crowdFigures) bool { return f.refused != "" }); i >= 0 {
				fmt.Fprintf(&t, "| %s | %s | not reported: %s |\n", c.name, s.title, all[i].refused)
				continue
			}
			var overtaken, unserved []float64
			for _, f := range all {
				overtaken = append(overtaken, float64(f.overtaken))
				unserved = append(unserved, float64(f.unserved))
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %.0f | %.0f |\n", c.name, s.title, c.requests(s.key),
				spreadOf(overtaken).median, spreadOf(unserved).median)
		}
	}
	return t.String()
}

// requests is unknown if a round of the contender was refused.
func (c crowdRuns) requests(key string) spread {
	var values []float64
	for _, f := range c.figures[key] {
		if f.refused != "" {
			return spreadOf(nil)
		}
		values = append(values, f.requests)
	}
	return spreadOf(values)
}

func (r *results) Script() string {
	if r.script == nil {
		return ""
	}
	return r.script.table()
}

func (r *results) Expiry() string {
	if r.expiry == nil {
		return ""
	}
	var t strings.Builder
	fmt.Fprintf(&t,
		"| of %s grants expire | | longest call | calls until all have returned |\n| --- | --- | --: | --: |\n",
		thousands(float64(r.expiry.grants)))
	for _, c := range r.expiry.cases {
		for _, one := range []struct {
			title string
			runs  []expiryRun
		}{{"this library", c.ours}, {"Redisson's script", c.their}} {
			calls := 0
			for _, run := range one.runs {
				calls = max(calls, run.calls)
			}
			fmt.Fprintf(&t, "| %s | %s | %s ms | %s |\n", c.name, one.title, longest(one.runs), thousands(float64(calls)))
		}
	}
	return t.String()
}

func (r *results) Memory() string {
	if r.memory == nil {
		return ""
	}
	return fmt.Sprintf("| | bytes per grant |\n| --- | --: |\n| this library | %s |\n| Redisson's script | %s |\n\nRatio: %s.\n",
		spreadOf(r.memory["ours"]), spreadOf(r.memory["script"]), r.memory.ratio())
}

func (m memory) ratio() spread {
	var ratios []float64
	for i, ours := range m["ours"] {
		ratios = append(ratios, ours/m["script"][i])
	}
	return spreadOf(ratios)
}

func (r *results) Allocations() string {
	if r.allocations == nil {
		return ""
	}
	return r.allocations.table()
}
