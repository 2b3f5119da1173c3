package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// key is one figure of a row in a table. Of the benchmark Granting/callers=256/library=script, the
// row is script and the table Granting/callers=256.
type key struct{ table, row, unit string }

// results has the figures of each round.
type results struct {
	figures map[key]map[string]float64
	names   []string            // of the tables, in order
	rows    map[string][]string // of each table
	machine []string
	rounds  int
	failed  []string
}

func read(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &results{figures: make(map[key]map[string]float64), rows: make(map[string][]string)}
	// The reason is in the line below. A benchmark of which a part failed has none.
	for _, failure := range regexp.MustCompile(`(?m)^ *--- FAIL: (.*)\n +\S+:\d+: (.*)`).FindAllStringSubmatch(string(text), -1) {
		r.failed = append(r.failed, failure[1]+": "+failure[2])
	}
	rounds := make(map[string]bool)
	reader := benchfmt.NewReader(bytes.NewReader(text), file)
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // the text of a failure
		}
		round := result.GetConfig("round")
		rounds[round] = true
		r.add(result, round)
		r.machine = nil
		for _, config := range result.Config {
			if config.File && config.Key != "round" && config.Key != "pkg" {
				r.machine = append(r.machine, config.Key+": "+string(config.Value))
			}
		}
	}
	r.rounds = len(rounds)
	return r, reader.Err()
}

func (r *results) add(result *benchfmt.Result, round string) {
	base, parts := result.Name.Parts()
	table, row := string(base), ""
	for _, part := range parts {
		if part[0] != '/' { // the number of processors
			continue
		}
		if row != "" {
			table += row
		}
		row = string(part)
	}
	_, row, _ = strings.Cut(row, "=")
	if !slices.Contains(r.names, table) {
		r.names = append(r.names, table)
	}
	if !slices.Contains(r.rows[table], row) {
		r.rows[table] = append(r.rows[table], row)
	}
	set := func(unit string, value float64) {
		k := key{table, row, unit}
		if r.figures[k] == nil {
			r.figures[k] = make(map[string]float64)
		}
		r.figures[k][round] = value
	}
	for _, v := range result.Values {
		set(v.Unit, v.Value)
	}
	if perOp, ok := result.Value("sec/op"); ok && perOp > 0 {
		set("decisions/s", 1/perOp)
		if calls, ok := result.Value("calls/op"); ok {
			set("calls/s", calls/perOp)
		}
	}
}

// spread is the median of rounds, with the lowest and the highest.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	return spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

func (r *results) figure(table, row, unit string) spread {
	var values []float64
	for _, v := range r.figures[key{table, row, unit}] {
		values = append(values, v)
	}
	return spreadOf(values)
}

// ratio compares two rows within each round.
func (r *results) ratio(table, row, to, unit string) spread {
	var values []float64
	for round, v := range r.figures[key{table, row, unit}] {
		if other, ok := r.figures[key{table, to, unit}][round]; ok {
			values = append(values, v/other)
		}
	}
	return spreadOf(values)
}

// groups are the rows that a floor can name together: the best of them counts.
var groups = map[string][]string{
	"go":      {"rueidislimiter", "redis_rate", "throttled", "go-redisstore", "ulule"},
	"windows": {"rueidislimiter", "go-redisstore", "ulule"},
	"buckets": {"redis_rate", "throttled"},
}

// best returns the best row of a group, in any setting, or the row itself.
func (r *results) best(table, group string) string {
	best, lowest := group, math.Inf(1)
	for _, row := range r.rows[table] {
		name, _, _ := strings.Cut(row, "+")
		if cost := r.cost(table, row); slices.Contains(groups[group], name) && cost < lowest {
			best, lowest = row, cost
		}
	}
	return best
}

// cost is what the best row of a table has least of: time for a decision, or under a fixed load the p99.
func (r *results) cost(table, row string) float64 {
	if cost := r.figure(table, row, "p99-sec").median; !math.IsNaN(r.figure(table, row, "p99.9-sec").median) {
		return cost
	}
	return 1 / r.figure(table, row, "decisions/s").median
}

func (s spread) String() string {
	if math.IsNaN(s.median) {
		return "–"
	}
	return fmt.Sprintf("%s (%s..%s)", short(s.median), short(s.low), short(s.high))
}
