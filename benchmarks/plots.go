package main

import (
	"errors"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
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
	p.Add(plotter.NewGrid())
	legend := plot.NewLegend()
	legend.Top = true
	legend.TextStyle.Font.Size = vg.Points(9)
	drawn := false
	for _, s := range sides {
		var line plotter.XYs
		for _, r := range all {
			if r.part != f.part || r.load.expect != f.expect || len(r.figures[s.key]) == 0 || r.refused(s.key) != "" {
				continue
			}
			// A side that uses no Redis has no cost there: a logarithm has no place for it.
			if y := r.spread(s.key, f.pick).median; y > 0 && (!s.inMemory || f.file != "server.svg") {
				line = append(line, plotter.XY{X: float64(r.load.callers), Y: y})
			}
		}
		if len(line) == 0 {
			continue
		}
		lines, points, err := plotter.NewLinePoints(line)
		if err != nil {
			return false, err
		}
		lines.Color, points.Color, points.Shape = colors[s.key], colors[s.key], draw.CircleGlyph{}
		switch {
		case s.key == "ours":
			lines.Width = vg.Points(2.5)
		case s.key == "empty" || s.inMemory:
			lines.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(lines, points)
		legend.Add(s.title, lines, points)
		drawn = true
	}
	if !drawn {
		return false, nil
	}
	return true, write(p, legend, filepath.Join(dir, f.file))
}

// colors are grey for the floors, warm for Redisson, and cold for the other libraries.
var colors = map[string]color.Color{
	"ours":           color.Black,
	"cached":         color.Black,
	"off":            color.RGBA{R: 120, G: 60, B: 160, A: 255},
	"script":         color.RGBA{R: 205, A: 255},
	"jvm-sync":       color.RGBA{R: 255, G: 150, A: 255},
	"jvm-async":      color.RGBA{R: 200, G: 110, B: 60, A: 255},
	"rueidislimiter": color.RGBA{G: 90, B: 200, A: 255},
	"redis_rate":     color.RGBA{G: 150, B: 90, A: 255},
	"throttled":      color.RGBA{R: 150, G: 190, A: 255},
	"redisstore":     color.RGBA{R: 90, G: 180, B: 230, A: 255},
	"ulule":          color.RGBA{G: 160, B: 170, A: 255},
	"empty":          color.Gray{Y: 110},
	"xtime":          color.Gray{Y: 170},
}

// write draws the legend beside the plot, where it hides nothing.
func write(p *plot.Plot, legend plot.Legend, path string) (err error) {
	const width, height, beside = 22 * vg.Centimeter, 12 * vg.Centimeter, 6.5 * vg.Centimeter
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	all := draw.New(canvas)
	p.Draw(draw.Crop(all, 0, -beside, 0, 0))
	legend.Draw(all)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
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
