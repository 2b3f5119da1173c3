package main

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"
)

const column = 50 * time.Millisecond

// show draws a line of text for each process. A column is a step of time, with the worst result in it.
func show(events []event, pauses bool) string {
	var text strings.Builder
	title := "without limit.Pause"
	if pauses {
		title = "with limit.Pause"
	}
	fmt.Fprintf(&text, "%s: %d requests served, %d refused, %d banned\n", title, count(events, served),
		count(events, refused), count(events, banned))
	begin := events[0].at
	for process := range processes {
		line := slices.Repeat([]rune{' '}, int(lasts/column)+1)
		for _, e := range events {
			at := int((e.at - begin) / column)
			if e.process == strconv.Itoa(process+1) && at < len(line) {
				line[at] = max(line[at], e.result)
			}
		}
		fmt.Fprintf(&text, "process %d %s\n", process+1, strings.TrimRight(string(line), " "))
	}
	return text.String() + "\n"
}

// draw draws the lines of text as a picture.
func draw(text string) string {
	colors := map[rune]string{served: "#3fb950", refused: "#d29922", banned: "#f85149"}
	var body strings.Builder
	y := 12
	for line := range strings.Lines(strings.TrimSpace(text)) {
		y += 18
		process, ok := strings.CutPrefix(line, "process ")
		if !ok {
			fmt.Fprintf(&body, `<text x="14" y="%d">%s</text>`+"\n", y, html.EscapeString(strings.TrimSpace(line)))
			continue
		}
		fmt.Fprintf(&body, `<text x="14" y="%d">process %s</text>`+"\n", y, process[:1])
		for i, result := range strings.TrimRight(process[2:], "\n") {
			if color, ok := colors[result]; ok {
				fmt.Fprintf(&body, `<circle cx="%d" cy="%d" r="3" fill="%s"/>`+"\n", 94+7*i, y-4, color)
			}
		}
	}
	width, height := 120+7*int(lasts/column), y+16
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d">
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3}</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
%[3]s</svg>
`, width, height, body.String())
}
