package main

import (
	"image/color"
	"math"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// figure is a plot over the number of callers, both axes logarithmic, a line for each side.
type figure struct {
	file, title, axis string
	part              string // "link" for the slow link, else the part of the report
	expect            expectation
	pick              func(figures) float64
}

var plots = []figure{
	{"granting.svg", "One name, granting", "decisions a second", "granting", allGranted, rateOf},
	{"denying.svg", "One name, denying", "decisions a second", "denying", allDenied, rateOf},
	{"granting-p99.svg", "One name, granting: the slowest 1 %", "p99, milliseconds", "granting", allGranted, func(f figures) float64 { return 1e3 * p99Of(f) }},
	{"server.svg", "One name, granting: what it costs Redis", "server CPU a decision, microseconds", "granting", allGranted, func(f figures) float64 { return f.serverCPU }},
	{"link.svg", "One name, granting, over a link of 2 ms", "decisions a second", "link", allGranted, rateOf},
}

// draw writes the plot; false where there is nothing to plot.
func (f figure) save(dir string, all []runs) (bool, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.title, "callers", f.axis
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(callerTicks)
	p.Y.Tick.Marker = plot.TickerFunc(decadeTicks)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	colors, err := brewer.GetPalette(brewer.TypeQualitative, "Paired", len(sides))
	if err != nil {
		return false, err
	}
	drawn := false
	low, high := math.Inf(1), math.Inf(-1)
	for i, s := range sides {
		var line plotter.XYs
		for _, r := range all {
			if r.part != f.part || r.load.expect != f.expect || len(r.figures[s.key]) == 0 || r.refused(s.key) != "" {
				continue
			}
			// A side that uses no Redis has no cost there: a logarithm has no place for it.
			if y := r.spread(s.key, f.pick).median; y > 0 && (!s.inMemory || f.file != "server.svg") {
				line = append(line, plotter.XY{X: float64(r.load.callers), Y: y})
				low, high = min(low, y), max(high, y)
			}
		}
		if len(line) == 0 {
			continue
		}
		lines, points, err := plotter.NewLinePoints(line)
		if err != nil {
			return false, err
		}
		lines.Color, points.Color, points.Shape = colors.Colors()[i], colors.Colors()[i], draw.CircleGlyph{}
		if s.key == "ours" {
			lines.Color, points.Color, lines.Width = color.Black, color.Black, vg.Points(2.5)
		}
		p.Add(lines, points)
		p.Legend.Add(s.title, lines, points)
		drawn = true
	}
	if !drawn {
		return false, nil
	}
	// Room for the legend, above what is drawn.
	p.Y.Min, p.Y.Max = low/1.5, high*math.Pow(high/low*1.5, 0.7)
	return true, p.Save(18*vg.Centimeter, 14*vg.Centimeter, filepath.Join(dir, f.file))
}

func callerTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for _, n := range []int{1, 2, 4, 8, 16, 64, 256, 2048} {
		if float64(n) >= low*0.99 && float64(n) <= high*1.01 {
			ticks = append(ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
		}
	}
	return ticks
}

func decadeTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for i := 1.0; i < 10; i++ {
			tick := plot.Tick{Value: i * math.Pow(10, e)}
			if i == 1 {
				tick.Label = short(tick.Value)
			}
			if tick.Value >= low && tick.Value <= high {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}
