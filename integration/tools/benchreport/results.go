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
	r.subtractLoad()
	return r, reader.Err()
}

// subtractLoad adds the client CPU without what the calls of a fixed load cost by themselves.
func (r *results) subtractLoad() {
	for k, rounds := range r.figures {
		load := r.figures[key{k.table, "x-time-rate", k.unit}]
		if k.unit != "client-sec/op" || !strings.HasPrefix(k.table, "FixedLoad/") || k.row == "x-time-rate" {
			continue
		}
		own := make(map[string]float64)
		for round, v := range rounds {
			if byItself, ok := load[round]; ok {
				own[round] = v - byItself
			}
		}
		r.figures[key{k.table, k.row, "own-client-sec/op"}] = own
	}
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
	if server, ok := result.Value("server-sec/op"); ok {
		client, _ := result.Value("client-sec/op")
		set("cpu-sec/op", server+client)
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

// groups are the rows that a floor can name together: the best of them in its unit counts.
var groups = map[string][]string{
	"go":          {"rueidislimiter", "redis_rate", "throttled", "go-redisstore", "ulule"},
	"windows":     {"rueidislimiter", "go-redisstore", "ulule"},
	"buckets":     {"redis_rate", "throttled"},
	"middlewares": {"ulule-stdlib", "redis_rate-handler"},
}

// prompt ends the name of a group without the settings in which a call waits for others.
const prompt = "-prompt"

var waiting = []string{"autopipeline", "8pipelines", "flushdelay"}

// best returns the row of a group, in any setting, that is best in the unit, or the row itself.
func (r *results) best(table, group, unit string) string {
	best, lowest := group, math.Inf(1)
	group, isPrompt := strings.CutSuffix(group, prompt)
	for _, row := range r.rows[table] {
		name, setting, _ := strings.Cut(row, "+")
		if isPrompt && slices.Contains(waiting, setting) {
			continue
		}
		cost := r.figure(table, row, unit).median
		if unit == "decisions/s" {
			cost = -cost
		}
		if slices.Contains(groups[group], name) && cost < lowest {
			best, lowest = row, cost
		}
	}
	return best
}

func (s spread) String() string { return s.in(short) }

// in returns the median with the lowest and the highest, in a format.
func (s spread) in(format func(float64) string) string {
	if math.IsNaN(s.median) {
		return none
	}
	return fmt.Sprintf("%s (%s..%s)", format(s.median), format(s.low), format(s.high))
}
