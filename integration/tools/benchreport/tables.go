package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
)

// columns are those of the tables, in order. A table has the columns that its rows have figures for.
var columns = []struct {
	unit, title string
	format      func(float64) string
}{
	{"decisions/s", "decisions/s", short}, {"", "x script (min..max)", nil},
	{"cpu-sec/op", "CPU", seconds}, {"server-sec/op", "server CPU", seconds}, {"client-sec/op", "client CPU", seconds},
	{"own-client-sec/op", "above the load's own", seconds},
	{"p50-sec", "p50", seconds}, {"p99-sec", "p99", seconds}, {"p99.9-sec", "p99.9", seconds},
	{"mallocs/op", "allocations", short}, {"calls/op", "script calls", short}, {"heap-B", "heap", megabytes},
	{"of-bound", "of the bound", short}, {"calls/grant", "script calls per granted permit", short},
	{"overtaken", "overtaken", short}, {"unserved", "not served at all", short},
	{"server-sec", "server time", seconds}, {"script-server-sec", "of Redisson's script", seconds},
	{"rueidislimiter-server-sec", "of rueidislimiter's", seconds}, {"x-rueidislimiter", "ratio", short},
	{"x-script", "ratio", short}, {"longest-sec", "longest call", seconds}, {"calls", "calls until all are free", short},
	{"B/grant", "bytes per grant", short},
}

const script = "script" // the row of Redisson's script

func formatOf(unit string) func(float64) string {
	for _, c := range columns {
		if c.unit == unit {
			return c.format
		}
	}
	return short
}

// table is one table in Markdown with these columns or all, the row with the least CPU first.
func (r *results) table(name string, units ...string) string {
	rows := slices.Clone(r.rows[name])
	slices.SortStableFunc(rows, func(a, b string) int {
		return cmp.Compare(r.figure(name, a, "cpu-sec/op").median, r.figure(name, b, "cpu-sec/op").median)
	})
	lines := make([]string, len(rows)+2)
	lines[0], lines[1] = "| |", "| --- |"
	for i, row := range rows {
		lines[i+2] = "| " + row + " |"
	}
	for _, c := range columns {
		if len(units) > 0 && !slices.Contains(units, c.unit) {
			continue
		}
		cells, known := make([]string, len(rows)), false
		for i, row := range rows {
			if c.unit == "" {
				cells[i] = r.ratio(name, row, script, "decisions/s").String()
			} else {
				cells[i] = c.format(r.figure(name, row, c.unit).median)
			}
			known = known || cells[i] != none
		}
		if !known {
			continue
		}
		lines[0], lines[1] = lines[0]+" "+c.title+" |", lines[1]+" --: |"
		for i, cell := range cells {
			lines[i+2] += " " + cell + " |"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// titled is a table below its name.
func (r *results) titled(name string) string { return "`" + name + "`\n\n" + r.table(name) }

// tables are those of a benchmark.
func (r *results) tables(benchmark string) string {
	var all []string
	for _, name := range r.names {
		if base, _, _ := strings.Cut(name, "/"); base == benchmark {
			all = append(all, r.titled(name))
		}
	}
	return strings.Join(all, "\n")
}

//go:embed tables.md.tmpl
var documentText string

// document puts the tables of a benchmark into the line that has its name behind an @.
func (r *results) document(checked []checkedFloor) string {
	return regexp.MustCompile(`(?m)^@(\w+)\n`).ReplaceAllStringFunc(documentText, func(line string) string {
		switch name := strings.TrimSpace(line[1:]); name {
		case "machine":
			return "- " + strings.Join(r.machine, "\n- ") + fmt.Sprintf("\n- rounds: %d\n", r.rounds)
		case "floors":
			return verdict(checked) + "\n\n" + floorTable(checked)
		default:
			return r.tables(name)
		}
	})
}

const none = "–"

// short formats a number with three significant digits.
func short(n float64) string {
	switch {
	case math.IsNaN(n):
		return none
	case n >= 1000:
		return picture.Number(n)
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	case n >= 0.1 || n == 0:
		return fmt.Sprintf("%.2f", n)
	default:
		return fmt.Sprintf("%.2g", n)
	}
}

func seconds(n float64) string {
	if math.IsNaN(n) {
		return none
	}
	unit, scale := "s", 1.0
	for _, smaller := range []string{"ms", "us", "ns"} {
		if n*scale >= 0.9995 {
			break
		}
		unit, scale = smaller, scale*1e3
	}
	return short(n*scale) + " " + unit
}

func megabytes(n float64) string {
	if math.IsNaN(n) {
		return none
	}
	return fmt.Sprintf("%.1f MB", n/1e6)
}
