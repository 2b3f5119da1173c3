package main

import (
	"fmt"
	"strings"
)

// svg is a picture for unknown fonts: each text is anchored at its fixed end, and has room to be
// wider. The unit is a pixel.
type svg struct {
	width, height float64
	text          strings.Builder
}

const fontSize = 11

// anchor is the fixed end of a text.
type anchor string

const (
	atStart anchor = "start"
	atHalf  anchor = "middle"
	atEnd   anchor = "end"
)

func (s *svg) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="Helvetica, Arial, sans-serif" font-size="%d">
<style>
:root { --ground: #ffffff; --ink: #1f2328; --grid: #d8dee4; --edge: #59636e }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --ink: #e6edf3; --grid: #2a313a; --edge: #9198a1 } }
text { fill: var(--ink) }
</style>
<rect width="100%%" height="100%%" style="fill: var(--ground)"/>
%s</svg>
`, s.width, s.height, s.width, s.height, fontSize, s.text.String())
}

func (s *svg) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(&s.text, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

// path draws lines from point to point, with a dot on each.
func (s *svg) path(points [][2]float64, color, style string) {
	var all strings.Builder
	for i, p := range points {
		if i > 0 {
			all.WriteByte(' ')
		}
		fmt.Fprintf(&all, "%.1f,%.1f", p[0], p[1])
	}
	fmt.Fprintf(&s.text, `<polyline points="%s" fill="none" style="stroke: %s" %s/>`+"\n", all.String(), color, style)
	for _, p := range points {
		fmt.Fprintf(&s.text, `<circle cx="%.1f" cy="%.1f" r="2.5" style="fill: %s"/>`+"\n", p[0], p[1], color)
	}
}

var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (s *svg) write(x, y float64, at anchor, style, text string) {
	fmt.Fprintf(&s.text, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, at, style,
		escaped.Replace(text))
}

// writeUp writes from the bottom to the top.
func (s *svg) writeUp(x, y float64, text string) {
	s.write(x, y, atHalf, fmt.Sprintf(`transform="rotate(-90 %.1f %.1f)"`, x, y), text)
}
