package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
)

// drawing is a picture of a benchmark, by the number of callers.
type drawing struct {
	file, title, benchmark, unit, axis string
	scale                              float64
	rows                               []string
}

var (
	onRedis = []string{"rratelimiter", "go", script, "redisson-async", "empty-script"}
	drawn   = []drawing{
		{"overview.svg", "", "Granting", "decisions/s", "decisions per second", 1,
			[]string{"rratelimiter", "go", script, "x-time-rate"}},
		{"granting.svg", "One name, granting", "Granting", "decisions/s", "decisions per second", 1, onRedis},
		{"denying.svg", "One name, denying", "Denying", "decisions/s", "decisions per second", 1, onRedis},
		{"granting-p99.svg", "One name, granting: the slowest 1 % of the calls", "Granting", "p99-sec", "p99, milliseconds",
			1e3, onRedis},
		{"server.svg", "One name, granting: what it costs Redis", "Granting", "server-sec/op",
			"server CPU of a decision, microseconds", 1e6, onRedis},
		{"link.svg", "One name, granting, over a link of 2 ms", "Link/answer=granted", "decisions/s",
			"decisions per second", 1, []string{"rratelimiter", script, "empty-script"}},
	}
	legends = map[string]string{
		"rratelimiter":   "this library",
		"go":             "the best other Go limiter",
		script:           "Redisson's script",
		"redisson-async": "Redisson on the JVM",
		"empty-script":   "a script that does nothing",
		"x-time-rate":    "x/time/rate, in process",
	}
)

func (r *results) draw(folder string) error {
	for _, d := range drawn {
		if err := r.picture(d, filepath.Join(folder, d.file)); err != nil {
			return fmt.Errorf("%s: %w", d.file, err)
		}
	}
	return nil
}

func (r *results) picture(d drawing, path string) error {
	if d.title == "" {
		const most = "Granting/callers=2048"
		d.title = fmt.Sprintf("2,048 callers on one limiter: %.0f times the decisions of Redisson's script",
			r.ratio(most, "rratelimiter", script, "decisions/s").median)
	}
	p := picture.New(d.title, "callers", d.axis)
	picture.Log(&p.X, 1, 2, 4, 8, 16, 64, 256, 2048)
	picture.Log(&p.Y)
	for i, row := range d.rows {
		var points plotter.XYs
		for _, table := range r.names {
			text, found := strings.CutPrefix(table, d.benchmark+"/callers=")
			callers, err := strconv.ParseFloat(text, 64)
			if y := r.figure(table, r.best(table, row, d.unit), d.unit).median; found && err == nil && y > 0 {
				points = append(points, plotter.XY{X: callers, Y: y * d.scale})
			}
		}
		if len(points) == 0 {
			return fmt.Errorf("%s was not measured", row)
		}
		if err := picture.Line(p, i, legends[row], points); err != nil {
			return err
		}
	}
	return picture.Save(path, 340, p)
}
