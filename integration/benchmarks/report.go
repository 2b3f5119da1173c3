package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// spread is the median of rounds, with the lowest and the highest.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// refused returns why a contender's rounds are not reported, or "".
func (r runs) refused(key string) string {
	for _, f := range r.figures[key] {
		if f.refused != "" {
			return f.refused
		}
	}
	return ""
}

func (r runs) spread(key string, pick func(figures) float64) spread {
	var values []float64
	for _, f := range r.figures[key] {
		values = append(values, pick(f))
	}
	return spreadOf(values)
}

// ratio compares two contenders within each round.
func (r runs) ratio(key, to string, pick func(figures) float64) spread {
	var values []float64
	if r.refused(key) == "" && r.refused(to) == "" {
		for i, f := range r.figures[key] {
			if i < len(r.figures[to]) {
				values = append(values, pick(f)/pick(r.figures[to][i]))
			}
		}
	}
	return spreadOf(values)
}

func rateOf(f figures) float64 { return f.rate }
func p50Of(f figures) float64  { return f.p50.Seconds() }
func p99Of(f figures) float64  { return f.p99.Seconds() }
func p999Of(f figures) float64 { return f.p999.Seconds() }

// table is one scenario in Markdown.
func (r runs) table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "**%s**\n\n", r.title)
	t.WriteString("| | decisions/s | x script (min..max) | p50 | p99 | p99.9 | server CPU us | client CPU us | allocations | bytes | requests |\n")
	t.WriteString("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n")
	for _, s := range contenders {
		if len(r.figures[s.key]) == 0 {
			continue
		}
		if why := r.refused(s.key); why != "" {
			fmt.Fprintf(&t, "| %s | not reported: %s |\n", s.title, why)
			continue
		}
		cell := func(pick func(figures) float64, format func(float64) string) string {
			return format(r.spread(s.key, pick).median)
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.title,
			cell(rateOf, thousands), r.ratio(s.key, "script", rateOf),
			cell(p50Of, seconds), cell(p99Of, seconds), cell(p999Of, seconds),
			cell(func(f figures) float64 { return f.serverCPU }, short),
			cell(func(f figures) float64 { return f.clientCPU }, short),
			cell(func(f figures) float64 { return f.allocs }, short),
			cell(func(f figures) float64 { return f.bytes }, short),
			cell(func(f figures) float64 { return f.requests }, short))
	}
	return t.String()
}

func (s spread) String() string {
	if math.IsNaN(s.median) {
		return "–"
	}
	return fmt.Sprintf("%s (%s..%s)", short(s.median), short(s.low), short(s.high))
}

// short formats a number with three significant digits, and – for none.
func short(n float64) string {
	switch {
	case math.IsNaN(n) || n < 0:
		return "–"
	case n >= 1000:
		return thousands(n)
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

// thousands formats a whole number with commas.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func seconds(n float64) string {
	d := time.Duration(n * float64(time.Second))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", n*1e3)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.3g us", n*1e6)
	default:
		return fmt.Sprintf("%d ns", d)
	}
}
