// Package picture draws the plots of the documents in one style. A picture has a white ground of its
// own, so that it is readable on a light and on a dark page, and no style sheet, which some viewers
// ignore.
package picture

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Most is how many series a reader can tell apart.
const Most = 5

// Colors are those of the series, in their order. They differ for colour-blind readers too (Okabe and
// Ito).
var Colors = [Most]color.RGBA{{0, 0, 0, 255}, {0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255},
	{204, 121, 167, 255}}

// Grey is that of the grid, and of what stands behind the series.
var Grey = color.RGBA{208, 213, 219, 255}

// New returns an empty plot with titles of its axes and a grid.
func New(title, x, y string) *plot.Plot {
	p := plot.New()
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		style.Typeface, style.Variant, style.Size = "Liberation", "Sans", 11
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.Title.Padding = 13, 8
	p.X.Tick.Marker, p.Y.Tick.Marker = commas{plot.DefaultTicks{}}, commas{plot.DefaultTicks{}}
	p.Legend.Padding, p.Legend.ThumbnailWidth, p.Legend.Top, p.Legend.Left = 5, 22, true, true
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = Grey, Grey
	p.Add(grid)
	return p
}

// Log makes an axis logarithmic, with these ticks or, without any, with powers of ten.
func Log(axis *plot.Axis, ticks ...float64) {
	axis.Scale = plot.LogScale{}
	axis.Tick.Marker = plot.TickerFunc(func(low, high float64) (shown []plot.Tick) {
		at := ticks
		if len(at) == 0 {
			steps := []float64{1}
			if high/low < 1000 {
				steps = []float64{1, 2, 5}
			}
			for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
				for _, step := range steps {
					at = append(at, step*math.Pow(10, e))
				}
			}
		}
		for _, v := range at {
			if v >= low && v <= high {
				shown = append(shown, plot.Tick{Value: v, Label: Number(v)})
			}
		}
		return shown
	})
}

// Line adds a series. Each value has a point, unless there are too many.
func Line(p *plot.Plot, index int, name string, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line.Color, dots.Color = Colors[index], Colors[index]
	line.Width, dots.Shape, dots.Radius = 1.5, draw.CircleGlyph{}, 2.2
	p.Add(line)
	if len(points) < 50 {
		p.Add(dots)
	}
	p.Legend.Add(name, line)
	return nil
}

// Area adds a series of steps, filled down to zero.
func Area(p *plot.Plot, fill color.RGBA, name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line.StepStyle, line.FillColor, line.Width = plotter.PostStep, fill, 0
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// commas labels ticks with Number.
type commas struct{ plot.Ticker }

func (c commas) Ticks(low, high float64) []plot.Tick {
	ticks := c.Ticker.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = Number(ticks[i].Value)
		}
	}
	return ticks
}

// Number formats a number as 2,100 or 0.05.
func Number(v float64) string {
	if math.Abs(v) < 1000 {
		return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0")
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

const (
	width  vg.Length = 640
	beside vg.Length = 190 // the legends
)

// Save writes plots below each other, each of a height, with their legends beside them.
func Save(path string, height vg.Length, plots ...*plot.Plot) error {
	canvas := vgsvg.New(width+beside, height*vg.Length(len(plots)))
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	rows, legends := make([][]*plot.Plot, len(plots)), make([]plot.Legend, len(plots))
	for i, p := range plots {
		rows[i], legends[i], p.Legend = []*plot.Plot{p}, p.Legend, plot.NewLegend()
	}
	const space = 8
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadTop: space, PadBottom: space, PadLeft: space, PadY: 2 * space}
	cells := plot.Align(rows, tiles, draw.Crop(whole, 0, -beside, 0, 0))
	for i, p := range plots {
		cell := cells[i][0]
		p.Draw(cell)
		legends[i].Draw(draw.Crop(draw.Canvas{Canvas: whole.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: width, Y: cell.Min.Y}, Max: vg.Point{X: width + beside, Y: cell.Max.Y}}}, 2*space, 0, 0, -3*space))
	}
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return err
	}
	// Where the font is missing, another one of its width.
	svg := strings.ReplaceAll(text.String(), "Liberation Sans;", "Liberation Sans,Arial,Helvetica,sans-serif;")
	return os.WriteFile(path, []byte(svg), 0o644)
}
