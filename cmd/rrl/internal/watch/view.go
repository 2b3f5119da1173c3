package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
)

// View keeps samples and draws them.
type View struct {
	Where string // the address of the Redis

	series []*series
	last   time.Time
}

// series has the samples of a limiter, the newest last.
type series struct {
	sample  Sample
	seen    time.Time
	taken   []float64 // permits, NaN without a sample
	limits  []int64
	highest float64 // the height of the plot without a limit
}

// kept bounds the samples of a series: the widest screen shows as many.
const kept = 512

// Add adds the samples of one moment.
func (v *View) Add(samples []Sample) {
	for _, s := range samples {
		v.last = s.Time
		found := v.find(s)
		found.sample, found.seen = s, s.Time
		value := float64(s.taken())
		if s.Wrong != "" {
			value = math.NaN()
		}
		found.taken, found.limits = append(found.taken, value), append(found.limits, s.Limit)
		found.highest = max(found.highest, float64(s.taken()))
		if len(found.taken) > kept {
			found.taken, found.limits = found.taken[1:], found.limits[1:]
		}
	}
	// A limiter that has vanished stays visible with nothing taken.
	for _, s := range v.series {
		if s.seen != v.last {
			s.sample.Taken, s.sample.Granted, s.sample.Clients = new(int64), nil, nil
			s.taken, s.limits = append(s.taken, 0), append(s.limits, s.sample.Limit)
		}
	}
}

func (v *View) find(sample Sample) *series {
	for i, s := range v.series {
		// A new limiter replaces its "no limiter" entry.
		if s.sample.id == sample.id || s.sample.id == string(sample.Name) && s.sample.Kind == "no limiter" {
			return v.series[i]
		}
	}
	s := new(series)
	v.series = append(v.series, s)
	return s
}

const (
	maxRows    = 6 // of a plot
	maxShown   = 4 // clients of a limiter
	aroundPlot = 3 // lines of a limiter besides its plot: title, numbers, and an empty one
)

// Lines draws the latest samples.
func (v *View) Lines(width, height int) []string {
	lines := []string{screen.Dim.Text(v.last.Format("15:04:05") + "  " + v.Where)}
	foot := "Ctrl-C quits. Waiting callers are not shown: Redis does not know them."
	room := height - 2 // head and foot
	shown := min(len(v.series), max(1, room/(aroundPlot+1)))
	for i, s := range v.series[:shown] {
		drawn := s.lines(width, room/(shown-i))
		room -= len(drawn)
		lines = append(lines, drawn...)
	}
	if rest := len(v.series) - shown; rest > 0 {
		foot = fmt.Sprintf("+%d more in a higher window. %s", rest, foot)
	}
	lines = append(lines[:min(len(lines), max(0, height-1))], screen.Dim.Text(foot))
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width, "…")
	}
	return lines[:min(len(lines), max(0, height))]
}

// lines draws a limiter in at most the given number of lines.
func (s *series) lines(width, most int) []string {
	sample := s.sample
	lines := []string{screen.Bold.Text(names.Quote(string(sample.Name))) + "  " + screen.Dim.Text(sample.Kind)}
	if sample.Wrong != "" {
		return append(lines, screen.Warn.Text(sample.Wrong), "")
	}
	clients := min(len(sample.Clients), maxShown, max(0, most-aroundPlot-2))
	lines = append(lines, s.plot(width, min(maxRows, max(1, most-aroundPlot-clients)))...)
	lines = append(lines, sample.numbers())
	for _, c := range sample.Clients[:clients] {
		lines = append(lines, c.line(sample.Limit, width))
	}
	return append(lines, "")
}

// plot draws the shares of the limit that were taken, beside a scale where there is room for one.
func (s *series) plot(width, rows int) []string {
	const label, roomy = 7, 48 // columns
	if width < roomy {
		return screen.Plot(s.shares(), width, rows)
	}
	lines := screen.Plot(s.shares(), width-label, rows)
	for row := range lines {
		scale := ""
		switch row {
		case 0:
			scale = shortNumber(s.top(len(s.taken) - 1))
		case rows - 1:
			scale = "0"
		}
		lines[row] = screen.Dim.Text(fmt.Sprintf("%5s │", scale)) + lines[row]
	}
	return lines
}

func (s *series) shares() []float64 {
	shares := make([]float64, len(s.taken))
	for i, taken := range s.taken {
		shares[i] = taken / s.top(i)
	}
	return shares
}

// top returns the value at the top of the plot.
func (s *series) top(i int) float64 {
	if s.limits[i] > 0 {
		return float64(s.limits[i])
	}
	// Without a limit no value is near it.
	return max(1, s.highest*1.3)
}

// taken returns 0 for a number that is not known, beside which Wrong is shown.
func (s Sample) taken() int64 {
	if s.Taken == nil {
		return 0
	}
	return *s.Taken
}

func (s Sample) numbers() string {
	taken := s.taken()
	text := fmt.Sprintf("taken %d", taken)
	if s.Limit > 0 {
		style := screen.Level(float64(taken) / float64(s.Limit))
		text = style.Text(fmt.Sprintf("taken %d of %d", taken, s.Limit)) + fmt.Sprintf("  free %d", max(0, s.Limit-taken))
	}
	if s.BusyMS > 0 {
		text += "  next free in " + names.AboutMillis(s.BusyMS)
	}
	if s.Granted != nil {
		text += fmt.Sprintf("  +%d granted", *s.Granted)
	}
	if n := len(s.Clients); n > 0 {
		text += fmt.Sprintf("  %d clients", n)
	}
	return text
}

// line draws a client's share of a limit.
func (c Client) line(limit int64, width int) string {
	const whole = 84 // columns with room for an ID and a bar
	id := c.ID
	if width < whole {
		id = c.ID[:min(8, len(c.ID))]
	}
	line := screen.Dim.Text("  " + id + " ")
	if bar := min(30, width-len(id)-20); bar > 3 {
		line += screen.Bar(float64(c.Taken)/float64(max(1, limit)), bar)
	}
	return line + fmt.Sprintf(" %d", c.Taken)
}

// shortNumber writes a number in at most five characters.
func shortNumber(n float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if n < 10000 {
			return fmt.Sprintf("%.0f%s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.0fP", n)
}

// Run takes samples until ctx ends, or count times if count is above 0. It fails if the first look can read no
// name, and otherwise shows a failure. At the end of count it returns that of the last look. On a terminal it
// draws, and restores the terminal at the end. Otherwise it writes a line per sample, or JSON.
func (w *Watcher) Run(ctx context.Context, out io.Writer, where string, every time.Duration, count int, json bool,
) (err error) {
	samples, read, failure := w.Look(ctx)
	if read == 0 && failure != nil && ctx.Err() == nil {
		return failure // it stays readable on the screen
	}
	view := &View{Where: where}
	var terminal *screen.Terminal
	if file, ok := out.(*os.File); ok && !json && screen.CanDraw(out) {
		if terminal, err = screen.OpenTerminal(file); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, terminal.Close()) }()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		if err := show(out, terminal, view, samples, json); err != nil || n == count {
			return cmp.Or(err, unread(read, failure))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			samples, read, failure = w.Look(ctx)
		}
	}
	return nil
}

// unread returns the error of a look that has read some of the names.
func unread(names int, err error) error {
	if names > 0 && connect.IsUnreached(err) {
		return &inspect.PartError{Err: err}
	}
	return err
}

func show(out io.Writer, terminal *screen.Terminal, view *View, samples []Sample, json bool) error {
	if terminal != nil {
		view.Add(samples)
		return terminal.Draw(view.Lines(terminal.Size()))
	}
	for _, s := range samples {
		var err error
		if json {
			err = report.JSON(out, s)
		} else {
			_, err = fmt.Fprintln(out, s.Plain())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
