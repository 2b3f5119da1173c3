package main

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// floor is a line of floors.txt.
type floor struct {
	table, row, unit, to string
	atLeast              bool
	bound                float64
	title                string
}

type checkedFloor struct {
	floor
	got float64
}

//go:embed floors.txt
var floorsText string

func floors() (all []floor) {
	for line := range strings.Lines(floorsText) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		bound, err := strconv.ParseFloat(fields[4][2:], 64)
		if err != nil {
			panic(err)
		}
		all = append(all, floor{fields[0], fields[1], fields[2], fields[3], fields[4][:2] == ">=", bound,
			strings.Join(fields[5:], " ")})
	}
	return all
}

// check returns the floors that were measured.
func (r *results) check(floors []floor) (all []checkedFloor) {
	for _, f := range floors {
		got := r.figure(f.table, f.row, f.unit).median
		if f.to != "-" {
			got = r.ratio(f.table, f.row, r.best(f.table, f.to), f.unit).median
		}
		if !math.IsNaN(got) {
			all = append(all, checkedFloor{f, got})
		}
	}
	return all
}

func (f checkedFloor) reached() bool {
	return f.atLeast && f.got >= f.bound || !f.atLeast && f.got <= f.bound
}

func floorTable(all []checkedFloor) string {
	var t strings.Builder
	t.WriteString("| | floor | measured | |\n| --- | --: | --: | --- |\n")
	for _, f := range all {
		sign, result := "at most", ""
		if f.atLeast {
			sign = "at least"
		}
		if !f.reached() {
			result = "**below**"
			if !f.atLeast {
				result = "**above**"
			}
		}
		fmt.Fprintf(&t, "| %s | %s %s | %s | %s |\n", f.title, sign, f.format(f.bound), f.format(f.got), result)
	}
	return t.String()
}

func (f floor) format(v float64) string {
	if f.to != "-" {
		return short(v)
	}
	return formatOf(f.unit)(v)
}

var figureRow = regexp.MustCompile(`(?m)^\| (.+: .+) \| (\S+(?: \S+)?) \|$`)

// withFigures puts the measured figures into the rows of performance.md that have a floor.
func withFigures(page string, checked []checkedFloor) string {
	measured := make(map[string]string)
	for _, f := range checked {
		measured[f.title] = f.format(f.got)
	}
	return figureRow.ReplaceAllStringFunc(page, func(row string) string {
		title := figureRow.FindStringSubmatch(row)[1]
		if got, ok := measured[title]; ok {
			return "| " + title + " | " + got + " |"
		}
		return row
	})
}
