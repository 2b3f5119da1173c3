package watch

import (
	"fmt"
	"math"
	"time"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
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
		value := float64(s.Taken)
		if s.Wrong != "" {
			value = math.NaN()
		}
		found.taken, found.limits = append(found.taken, value), append(found.limits, s.Limit)
		found.highest = max(found.highest, float64(s.Taken))
		if len(found.taken) > kept {
			found.taken, found.limits = found.taken[1:], found.limits[1:]
		}
	}
	// A limiter that has vanished stays visible with nothing taken.
	for _, s := range v.series {
		if s.seen != v.last {
			s.sample.Taken, s.sample.Granted, s.sample.Clients = 0, nil, nil
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
	narrow     = 48 // columns below which texts are short
	maxRows    = 6  // of a plot
	maxShown   = 4  // clients of a limiter
	aroundPlot = 3  // lines of a limiter besides its plot: title, numbers, and an empty one
)

// Frame draws the latest samples.
func (v *View) Frame(width, height int) screen.Frame {
	head := fmt.Sprintf("%s  %s", v.last.Format("15:04:05"), v.Where)
	foot := "Ctrl-C quits. Waiting callers are not shown: Redis does not know them."
	if width < narrow {
		head, foot = v.last.Format("15:04:05"), "Ctrl-C quits"
	}
	frame := screen.Frame{screen.Text(head, screen.Dim)}
	room := height - 2 // head and foot
	shown := min(len(v.series), max(1, room/(aroundPlot+1)))
	for i, s := range v.series[:shown] {
		each := room / (shown - i)
		lines := s.lines(width, each)
		room -= len(lines)
		frame = append(frame, lines...)
	}
	if rest := len(v.series) - shown; rest > 0 {
		foot = fmt.Sprintf("+%d more in a higher window. %s", rest, foot)
	}
	frame = frame[:min(len(frame), max(0, height-1))]
	return append(frame, screen.Text(foot, screen.Dim)).Cut(width, height)
}

// lines draws a limiter in at most the given number of lines.
func (s *series) lines(width, most int) screen.Frame {
	sample := s.sample
	frame := screen.Frame{{
		{Text: names.Quote(string(sample.Name)), Style: screen.Bold}, {Text: "  " + sample.Kind, Style: screen.Dim},
	}}
	if sample.Wrong != "" {
		return append(frame, screen.Text(sample.Wrong, screen.Warn), nil)
	}
	clients := min(len(sample.Clients), maxShown, max(0, most-aroundPlot-2))
	rows := min(maxRows, max(1, most-aroundPlot-clients))
	frame = append(frame, s.plot(width, rows)...)
	frame = append(frame, s.numbers(width))
	for _, c := range sample.Clients[:clients] {
		frame = append(frame, s.client(c, width))
	}
	return append(frame, nil)
}

// plot draws the shares of the limit that were taken, beside a scale where there is room for one.
func (s *series) plot(width, rows int) screen.Frame {
	scale := 0
	if width >= narrow {
		scale = 7
	}
	shares := make([]float64, len(s.taken))
	for i, taken := range s.taken {
		shares[i] = taken / s.top(i)
	}
	var frame screen.Frame
	for row, line := range screen.Plot(shares, width-scale, rows) {
		label := ""
		switch {
		case scale == 0:
		case row == 0:
			label = fmt.Sprintf("%5s │", short(s.top(len(s.taken)-1)))
		case row == rows-1:
			label = "    0 │"
		default:
			label = "      │"
		}
		if scale > 0 {
			line = append(screen.Line{{Text: label, Style: screen.Dim}}, line...)
		}
		frame = append(frame, line)
	}
	return frame
}

// top returns the value at the top of the plot.
func (s *series) top(i int) float64 {
	if s.limits[i] > 0 {
		return float64(s.limits[i])
	}
	// Without a limit no value is near it.
	return max(1, s.highest*1.3)
}

func (s *series) numbers(width int) screen.Line {
	sample := s.sample
	style := screen.Plain
	text := fmt.Sprintf("taken %d", sample.Taken)
	if sample.Limit > 0 {
		style = screen.Level(float64(sample.Taken) / float64(sample.Limit))
		text = fmt.Sprintf("taken %d of %d", sample.Taken, sample.Limit)
		if width < narrow {
			text = fmt.Sprintf("%d/%d", sample.Taken, sample.Limit)
		}
	}
	line := screen.Line{{Text: text, Style: style}}
	add := func(text string) { line = append(line, screen.Span{Text: "  " + text}) }
	if sample.BusyMS > 0 {
		add("next free in " + names.About(time.Duration(sample.BusyMS)*time.Millisecond))
	}
	if sample.Limit > 0 && width >= narrow {
		add(fmt.Sprintf("free %d", max(0, sample.Limit-sample.Taken)))
	}
	if sample.Granted != nil {
		add(fmt.Sprintf("+%d granted", *sample.Granted))
	}
	if n := len(sample.Clients); n > 0 {
		add(fmt.Sprintf("%d clients", n))
	}
	return line
}

func (s *series) client(c Client, width int) screen.Line {
	share := float64(c.Taken) / float64(max(1, s.sample.Limit))
	id := c.ID
	if width < narrow+36 {
		id = c.ID[:min(8, len(c.ID))]
	}
	line := screen.Line{{Text: "  " + id + " ", Style: screen.Dim}}
	if bar := min(30, width-len(id)-20); bar > 3 {
		line = append(line, screen.Bar(share, bar))
	}
	return append(line, screen.Span{Text: fmt.Sprintf(" %d", c.Taken)})
}

// short writes a number in at most five characters.
func short(n float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if n < 10000 {
			return fmt.Sprintf("%.0f%s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.0fP", n)
}
