package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	width, height = 720, 150 // of a panel
	left, top     = 60, 24
)

// line is one line of a panel.
type line struct {
	name, color string
	value       func(sample) float64
}

// draw returns an SVG with a panel for memory, one for goroutines and one for latencies. Dashed lines
// are failovers.
func draw(samples []sample, failovers []time.Duration) string {
	var b strings.Builder
	panels := []struct {
		title string
		lines []line
	}{
		{"memory, MB", []line{
			{"heap of the process", "#2563eb", func(s sample) float64 { return float64(s.heap) / 1e6 }},
			{"Redis", "#dc2626", func(s sample) float64 { return float64(s.redis) / 1e6 }},
		}},
		{"goroutines", []line{{"all", "#2563eb", func(s sample) float64 { return float64(s.goroutines) }}}},
		{"p99, ms", []line{
			latency("leased", "#16a34a"), latency("keys", "#2563eb"), latency("rules", "#9333ea"), latency("waiting", "#dc2626"),
		}},
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width+left+20, len(panels)*(height+2*top))
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, p := range panels {
		panel(&b, samples, failovers, i*(height+2*top)+top, p.title, p.lines)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func latency(name, color string) line {
	return line{name, color, func(s sample) float64 { return float64(s.p99[name]) / float64(time.Millisecond) }}
}

// panel draws lines over time, with the largest value and the length of the run on its axes.
func panel(b *strings.Builder, samples []sample, failovers []time.Duration, y int, title string, lines []line) {
	highest, length := 0.0, time.Duration(1)
	for _, s := range samples {
		length = max(length, s.at)
		for _, l := range lines {
			highest = max(highest, l.value(s))
		}
	}
	highest = max(highest, 1e-9)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, y-8, title)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>`+"\n", left, y, width, height)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%.3g</text>`+"\n", left-6, y+10, highest)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">0</text>`+"\n", left-6, y+height)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%v</text>`+"\n", left+width, y+height+14, length.Round(time.Minute))
	for _, at := range failovers {
		x := left + float64(at)/float64(length)*width
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#bbb" stroke-dasharray="3 3"/>`+"\n", x, y, x, y+height)
	}
	for i, l := range lines {
		var points strings.Builder
		for _, s := range samples {
			fmt.Fprintf(&points, "%.1f,%.1f ", left+float64(s.at)/float64(length)*width,
				float64(y+height)-l.value(s)/highest*(height-4))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.2"/>`+"\n", points.String(), l.color)
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+140+i*150, y-8, l.color, l.name)
	}
}
