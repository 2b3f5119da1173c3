package screen

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The size of a cell and the margins in SVG units.
const (
	cellWidth, cellHeight = 8, 16
	margin                = 12
	baseline              = 12
)

const svgStyle = `text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px;fill:#d4d8dd;white-space:pre}` +
	`.b{font-weight:bold;fill:#fff}.d{fill:#8b949e}.g{fill:#3fb950}.w{fill:#d29922}.r{fill:#f85149}`

var svgClass = map[Style]string{Plain: "", Bold: "b", Dim: "d", Good: "g", Warn: "w", Bad: "r"}

// SVG writes frames as an animated picture that repeats.
func SVG(w io.Writer, frames []Frame, width, height int, each time.Duration) error {
	var all strings.Builder
	wide, high := width*cellWidth+2*margin, height*cellHeight+2*margin
	total := each * time.Duration(len(frames))
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&all, "<style>%s.f{visibility:hidden;animation:f %.2fs step-end infinite}@keyframes f{0%%{visibility:visible}%.4f%%{visibility:hidden}}@media(prefers-reduced-motion:reduce){.f{animation:none}}</style>\n",
		svgStyle, total.Seconds(), 100/float64(len(frames)))
	fmt.Fprintf(&all, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", wide, high)
	// Lines that never change are written once.
	still := make([]bool, height)
	for row := range height {
		still[row] = true
		for i := range frames {
			still[row] = still[row] && slices.Equal(at(frames[i], row), at(frames[0], row))
		}
		if still[row] {
			writeLine(&all, at(frames[0], row), margin+row*cellHeight)
		}
	}
	all.WriteString("\n")
	for i, frame := range frames {
		first := ""
		if i == 0 {
			first = "visibility:visible;" // without animation
		}
		fmt.Fprintf(&all, `<g class="f" style="%sanimation-delay:%.2fs">`, first, (each*time.Duration(i) - total).Seconds())
		for row, line := range frame {
			if !still[row] {
				writeLine(&all, line, margin+row*cellHeight)
			}
		}
		all.WriteString("</g>\n")
	}
	all.WriteString("</svg>\n")
	_, err := io.WriteString(w, all.String())
	return err
}

// at returns a row of a frame, or an empty one.
func at(f Frame, row int) Line {
	if row < len(f) {
		return f[row]
	}
	return nil
}

// writeLine writes a line. It draws blocks as paths, one per style, since fonts leave gaps between them.
func writeLine(all *strings.Builder, line Line, y int) {
	paths := make(map[Style]string)
	column := 0
	for _, span := range line {
		for runes := []rune(span.Text); len(runes) > 0; {
			n := run(runes)
			text, wide := string(runes[:n]), Width(string(runes[:n]))
			x := margin + column*cellWidth
			if eighths := slices.Index(blocks, runes[0]); eighths > 0 {
				high := cellHeight * eighths / 8
				paths[span.Style] += fmt.Sprintf("M%d %dh%dv-%dh-%dz", x, y+cellHeight, wide*cellWidth, high, wide*cellWidth)
			} else if shown := strings.TrimSpace(text); shown != "" {
				x += (len(text) - len(strings.TrimLeft(text, " "))) * cellWidth
				fmt.Fprintf(all, `<text x="%d" y="%d" textLength="%d"%s>%s</text>`, x, y+baseline, Width(shown)*cellWidth,
					class(span.Style), escape(shown))
			}
			column += wide
			runes = runes[n:]
		}
	}
	for style := range Bad + 1 {
		if paths[style] != "" {
			fmt.Fprintf(all, `<path%s d="%s"/>`, class(style), paths[style])
		}
	}
}

// run returns the number of leading characters that are the same block, or no block.
func run(runes []rune) int {
	first := slices.Index(blocks, runes[0])
	for i, c := range runes {
		if index := slices.Index(blocks, c); max(index, 0) != max(first, 0) {
			return i
		}
	}
	return len(runes)
}

func class(s Style) string {
	if svgClass[s] == "" {
		return ""
	}
	return ` class="` + svgClass[s] + `"`
}

func escape(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a Builder never fails
	return escaped.String()
}
