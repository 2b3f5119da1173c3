package main

import (
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
)

// line is one line of a panel.
type line struct {
	name  string
	value func(sample) float64
}

// panels are one for memory, one for goroutines and one for latencies.
var panels = []struct {
	title, axis string
	lines       []line
}{
	{"Memory", "megabytes", []line{
		{"heap of the process", func(s sample) float64 { return float64(s.heap) / 1e6 }},
		{"Redis", func(s sample) float64 { return float64(s.redis) / 1e6 }},
	}},
	{"Goroutines", "goroutines", []line{{"all", func(s sample) float64 { return float64(s.goroutines) }}}},
	{"Latency", "p99, milliseconds", []line{latency("prefetched"), latency("keys"), latency("rules"), latency("waiting")}},
}

func latency(name string) line {
	return line{name, func(s sample) float64 { return s.p99[name].Seconds() * 1e3 }}
}

// draw writes the panels below each other. Dashed lines are failovers.
func draw(path string, samples []sample, failovers []time.Duration) error {
	var plots []*plot.Plot
	for _, panel := range panels {
		p := picture.New(panel.title, "minutes", panel.axis)
		p.X.Min, p.Y.Min = 0, 0
		for i, l := range panel.lines {
			var points plotter.XYs
			for _, s := range samples {
				points = append(points, plotter.XY{X: s.at.Minutes(), Y: l.value(s)})
			}
			if err := picture.Line(p, i, l.name, points); err != nil {
				return err
			}
		}
		if err := mark(p, failovers); err != nil {
			return err
		}
		plots = append(plots, p)
	}
	return picture.Save(path, 220, plots...)
}

func mark(p *plot.Plot, failovers []time.Duration) error {
	for i, at := range failovers {
		dashed, err := plotter.NewLine(plotter.XYs{{X: at.Minutes(), Y: 0}, {X: at.Minutes(), Y: p.Y.Max}})
		if err != nil {
			return err
		}
		dashed.Color, dashed.Dashes = color.Gray{128}, []vg.Length{3, 3}
		p.Add(dashed)
		if i == 0 {
			p.Legend.Add("failover", dashed)
		}
	}
	return nil
}
