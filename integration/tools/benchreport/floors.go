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

// In each round of a quiet run, others use at most this share of the processors. The processors pass
// numbers to each other at least at this part of their usual pace.
const (
	quietOthers = 0.05
	quietPace   = 0.7
)

// noise describes how quiet the machine was. A run without measured noise counts as quiet.
func (r *results) noise() (text string, quiet bool) {
	machine := func(unit string) spread { return r.figure("Noise", "machine", unit) }
	others, pace, slow := machine("others"), machine("pace"), machine("slow-pace")
	if math.IsNaN(others.high) {
		return "The noise of the machine was not measured.", true
	}
	text = fmt.Sprintf("Other processes and the host used up to %.0f %% of the processors, and the pace at which these "+
		"share memory fell to %.2f of the usual one.", 100*others.high, slow.low/pace.median)
	return text, others.high <= quietOthers && slow.low >= quietPace*pace.median
}

// verdict is how many floors were missed, and how quiet the machine was.
func (r *results) verdict(all []checkedFloor) string {
	noise, quiet := r.noise()
	if !quiet {
		return "The machine was not quiet, and no floor is judged. " + noise
	}
	missed := 0
	for _, f := range all {
		if !f.reached() {
			missed++
		}
	}
	return fmt.Sprintf("The run missed %d of %d floors. %s", missed, len(all), noise)
}

func (r *results) floorTable(all []checkedFloor) string {
	_, quiet := r.noise()
	var t strings.Builder
	t.WriteString("| | floor | measured | |\n| --- | --: | --: | --- |\n")
	for _, f := range all {
		sign, result := "at most", ""
		if f.atLeast {
			sign = "at least"
		}
		switch {
		case !quiet:
			result = "not judged"
		case f.reached():
		case f.atLeast:
			result = "**below**"
		default:
			result = "**above**"
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
			case f.atLeast && (!known || f.got < worst):
				reached[f.title] = f.got
			case !f.atLeast && (!known || f.got > worst):
				reached[f.title] = f.got
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
