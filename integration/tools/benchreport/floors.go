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

// checkedFloor is a floor with what was measured: got, and beside a ratio that of the rates.
type checkedFloor struct {
	floor
	got, rate spread
}

//go:embed floors.txt
var floorsText string

func floors(file string) (all []floor) {
	for line := range strings.Lines(file) {
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
		got, rate := r.figure(f.table, f.row, f.unit), spreadOf(nil)
		if f.to != "-" {
			to := r.best(f.table, f.to, f.unit)
			got, rate = r.ratio(f.table, f.row, to, f.unit), r.ratio(f.table, f.row, to, "decisions/s")
		}
		if !math.IsNaN(got.median) {
			all = append(all, checkedFloor{f, got, rate})
		}
	}
	return all
}

func (f checkedFloor) reached() bool {
	return f.atLeast && f.got.median >= f.bound || !f.atLeast && f.got.median <= f.bound
}

// verdict is how many floors were missed.
func verdict(all []checkedFloor) string {
	missed := 0
	for _, f := range all {
		if !f.reached() {
			missed++
		}
	}
	return fmt.Sprintf("The run missed %d of %d floors.", missed, len(all))
}

func floorTable(all []checkedFloor) string {
	var t strings.Builder
	t.WriteString("| | floor | measured (min..max) | decisions/s (min..max) | |\n| --- | --: | --: | --: | --- |\n")
	for _, f := range all {
		sign, result := "at most", "**above**"
		if f.atLeast {
			sign, result = "at least", "**below**"
		}
		if f.reached() {
			result = ""
		}
		fmt.Fprintf(&t, "| %s | %s %s | %s | %s | %s |\n",
			f.title, sign, f.format(f.bound), f.got.in(f.format), f.rate, result)
	}
	return t.String()
}

func (f floor) format(v float64) string {
	if f.to != "-" {
		return short(v)
	}
	return formatOf(f.unit)(v)
}

var floorLine = regexp.MustCompile(`(?m)^(\S+ +\S+ +\S+ +\S+ +)([<>]=)(\S+ +)(.+)$`)

// renewed returns the floors with the bounds of ratios set to what all runs reached, less a tenth. A
// floor of a figure is a promise, and stays.
func renewed(text string, runs []*results) string {
	reached := make(map[string]float64)
	for _, r := range runs {
		for _, f := range r.check(floors(text)) {
			worst, known := reached[f.title]
			switch {
			case f.to == "-":
			case f.atLeast && (!known || f.got.median < worst):
				reached[f.title] = f.got.median
			case !f.atLeast && (!known || f.got.median > worst):
				reached[f.title] = f.got.median
			}
		}
	}
	return floorLine.ReplaceAllStringFunc(text, func(line string) string {
		fields := floorLine.FindStringSubmatch(line)
		row, sign, bound, title := fields[1], fields[2], fields[3], fields[4]
		got, ok := reached[title]
		if !ok {
			return line
		}
		factor := 0.9
		if sign == "<=" {
			factor = 1.1
		}
		return fmt.Sprintf("%s%s%-*.3g%s", row, sign, len(bound), got*factor, title)
	})
}
