package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// draw writes a timeline as a picture.
func draw(out io.Writer, timeline string) error {
	const cell, line, margin = 8, 17, 14
	lines := strings.Split(strings.TrimSpace(timeline), "\n")
	var text strings.Builder
	wide := 0
	for i, l := range lines {
		wide = max(wide, len([]rune(l)))
		color := "#e6edf3"
		switch {
		case strings.Contains(l, " granted "):
			color = "#3fb950"
		case strings.Contains(l, " denied "):
			color = "#f85149"
		}
		fmt.Fprintf(&text, `<text x="%d" y="%d" fill="%s">`, margin, margin+line*(i+1)-4, color)
		if err := xml.EscapeText(&text, []byte(l)); err != nil {
			return err
		}
		text.WriteString("</text>\n")
	}
	w, h := wide*cell+2*margin, len(lines)*line+2*margin
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d">
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
%[3]s</svg>
`, w, h, text.String())
	return err
}
