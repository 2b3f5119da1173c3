package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// figure is a plot over the number of callers, both axes logarithmic, a line for each contender.
type figure struct {
	file, title, axis string
	part              string // "link" for the slow link, else the part of the report
	expect            expectation
	pick              func(figures) float64
}

var plots = []figure{
	{overview, "", "decisions per second", "granting", allGranted, rateOf},
	{"granting.svg", "One name, granting", "decisions per second", "granting", allGranted, rateOf},
	{"denying.svg", "One name, denying", "decisions per second", "denying", allDenied, rateOf},
	{"granting-p99.svg", "One name, granting: the slowest 1 %", "p99, milliseconds", "granting", allGranted,
		func(f figures) float64 { return 1e3 * p99Of(f) }},
	{"server.svg", "One name, granting: what it costs Redis", "server CPU per decision, microseconds", "granting",
		allGranted, func(f figures) float64 { return f.serverCPU }},
	{"link.svg", "One name, granting, over a link of 2 ms", "decisions per second", "link", allGranted, rateOf},
}

// series is the line of a contender: callers and figures.
type series struct {
	contender
	points [][2]float64
}

// save writes the plot, or returns false without data.
func (f figure) save(dir string, all []runs) (bool, error) {
	lines := f.series(all)
	if len(lines) == 0 {
		return false, nil
	}
	return true, os.WriteFile(filepath.Join(dir, f.file), []byte(f.draw(lines).String()), 0o644)
}

// overview is the picture of the README. It has four contenders, one of them the best other Go library for each
// number of callers.
const (
	overview    = "overview.svg"
	bestLibrary = "best-library"
)

// shown returns the contenders of the plot.
func (f figure) shown() []contender {
	if f.file != overview {
		return contenders
	}
	shown := []contender{{key: bestLibrary, title: "the best other Go limiter on Redis"}}
	for _, s := range contenders {
		if s.key == "ours" || s.key == "script" || s.key == "xtime" {
			shown = append(shown, s)
		}
	}
	return shown
}

func (f figure) series(all []runs) []series {
	var lines []series
	for _, s := range f.shown() {
		line := series{contender: s}
		for _, r := range all {
			if r.part != f.part || r.load.expect != f.expect {
				continue
			}
			if s.key == bestLibrary {
				best := 0.0
				for _, peer := range goLibraries {
					if rate := r.spread(peer, f.pick).median; r.refused(peer) == "" && rate > best {
						best = rate
					}
				}
				if best > 0 {
					line.points = append(line.points, [2]float64{float64(r.load.callers), best})
				}
				continue
			}
			if len(r.figures[s.key]) == 0 || r.refused(s.key) != "" {
				continue
			}
			// A contender without Redis costs the server nothing, which a logarithm cannot show.
			if y := r.spread(s.key, f.pick).median; y > 0 && (!s.inMemory || f.file != "server.svg") {
				line.points = append(line.points, [2]float64{float64(r.load.callers), y})
			}
		}
		if len(line.points) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// Positions in a plot. The labels have a third of it.
const (
	plotWidth, plotHeight = 1000, 480
	left, right           = 110, 620
	top, bottom           = 50, 425
	labels                = right + 36 // begin of the text of the lines
	labelStep             = fontSize + 5
)

// axis maps figures to the picture, by their logarithms.
type axis struct{ low, high, from, to float64 }

func (a axis) at(v float64) float64 {
	if a.high == a.low {
		return (a.from + a.to) / 2
	}
	return a.from + (a.to-a.from)*math.Log(v/a.low)/math.Log(a.high/a.low)
}

func axes(lines []series) (x, y axis) {
	x, y = axis{math.Inf(1), 0, left + 12, right}, axis{math.Inf(1), 0, bottom, top}
	for _, line := range lines {
		for _, p := range line.points {
			x.low, x.high = min(x.low, p[0]), max(x.high, p[0])
			y.low, y.high = min(y.low, p[1]), max(y.high, p[1])
		}
	}
	y.low, y.high = y.low/1.3, y.high*1.3
	return x, y
}

func (f figure) draw(lines []series) *svg {
	s := &svg{width: plotWidth, height: plotHeight}
	x, y := axes(lines)
	title := f.title
	if f.file == overview {
		title = finding(lines)
	}
	s.write(left, 26, atStart, `font-size="15" font-weight="bold"`, title)
	s.write((left+right)/2, plotHeight-14, atHalf, "", "callers")
	s.writeUp(20, (top+bottom)/2, f.axis)
	const grid = `style="stroke: var(--grid)"`
	for _, n := range []int{1, 2, 4, 8, 16, 64, 256, 2048} {
		if v := float64(n); v >= x.low && v <= x.high {
			s.line(x.at(v), top, x.at(v), bottom, grid)
			s.write(x.at(v), bottom+18, atHalf, "", strconv.Itoa(n))
		}
	}
	for _, v := range decadeTicks(y.low, y.high) {
		s.line(left, y.at(v), right, y.at(v), grid)
		s.write(left-8, y.at(v)+4, atEnd, "", short(v))
	}
	const edge = `style="stroke: var(--edge)"`
	s.line(left, top, left, bottom, edge)
	s.line(left, bottom, right, bottom, edge)

	ends := make([]float64, len(lines))
	for i, line := range lines {
		ends[i] = y.at(line.points[len(line.points)-1][1])
	}
	places := apart(ends, top, bottom, labelStep)
	for i, line := range lines {
		points := make([][2]float64, len(line.points))
		for j, p := range line.points {
			points[j] = [2]float64{x.at(p[0]), y.at(p[1])}
		}
		color := colors[line.key]
		end := points[len(points)-1]
		s.line(end[0], end[1], labels-4, places[i],
			fmt.Sprintf(`style="stroke: %s" stroke-width="0.7" stroke-dasharray="1 3"`, color))
		s.path(points, color, line.stroke())
		s.write(labels, places[i]+4, atStart, fmt.Sprintf(`style="fill: %s"`, color), line.title)
	}
	return s
}

// finding returns what the overview shows at its right end.
func finding(lines []series) string {
	last := make(map[string][2]float64)
	for _, line := range lines {
		last[line.key] = line.points[len(line.points)-1]
	}
	return fmt.Sprintf("%s callers on one limiter: %.0f times the decisions of Redisson's script",
		thousands(last["ours"][0]), last["ours"][1]/last["script"][1])
}

// stroke is heavy for this library, and dashed for the baselines and for the other ways of a peer.
func (s contender) stroke() string {
	switch {
	case s.key == "ours":
		return `stroke-width="3"`
	case s.key == "empty" || s.inMemory:
		return `stroke-width="1.5" stroke-dasharray="5 4"`
	case slices.Contains(variants, s.key):
		return `stroke-width="1.2" stroke-dasharray="9 3"`
	default:
		return `stroke-width="1.5"`
	}
}

// apart moves places away from each other, in their order, to a distance of step. It keeps them
// between low and high.
func apart(wanted []float64, low, high, step float64) []float64 {
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(wanted[a], wanted[b]) })
	places := make([]float64, len(wanted))
	next := low
	for _, i := range order {
		places[i] = max(wanted[i], next)
		next = places[i] + step
	}
	next = high
	for _, i := range slices.Backward(order) {
		places[i] = min(places[i], next)
		next = places[i] - step
	}
	return places
}

// colors are grey for the baselines, warm for Redisson, and cold for the other libraries.
var colors = map[string]string{
	"ours":                 "var(--ink)",
	"ours-delay":           "var(--ink)",
	"cached":               "var(--ink)",
	bestLibrary:            "#2f81f7",
	"off":                  "#783ca0",
	"script":               "#e5484d",
	"jvm-sync":             "#ef8a00",
	"jvm-async":            "#b85f28",
	"rueidislimiter":       "#005ac8",
	"rueidislimiter-pool":  "#4a8fe0",
	"rueidislimiter-delay": "#4a8fe0",
	"redis_rate":           "#00803f",
	"redis_rate-auto":      "#00965a",
	"redis_rate-many":      "#00965a",
	"redis_rate-delay":     "#00965a",
	"throttled":            "#7a9e00",
	"redisstore":           "#3a9fd0",
	"ulule":                "#007f8a",
	"ulule-auto":           "#00a0aa",
	"ulule-many":           "#00a0aa",
	"ulule-delay":          "#00a0aa",
	"empty":                "#6e6e6e",
	"xtime":                "#8f8f8f",
}

// decadeTicks are the powers of ten, and where these are few, twice and five times of them.
func decadeTicks(low, high float64) []float64 {
	var ticks []float64
	steps := []float64{1}
	if high/low < 1000 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, step := range steps {
			if v := step * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}
