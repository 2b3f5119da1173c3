package picture

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// The size of a character and the margin, in pixels.
const cell, row, margin = 8, 17, 14

// styles are the attributes of control sequences ESC [ N m.
var styles = map[string]string{
	"0": `fill="#e6edf3"`, "1": `fill="#e6edf3" font-weight="bold"`, "2": `fill="#8b949e"`,
	"31": `fill="#f85149"`, "32": `fill="#3fb950"`, "33": `fill="#d29922"`,
}

var (
	sequence = regexp.MustCompile(`\x1b\[([0-9]*)[A-Za-z]`)
	words    = regexp.MustCompile(`\S+(?: \S+)*`) // two spaces begin a column of a table
)

// Terminal draws lines of a terminal with their styles. Blocks are rectangles, since a font leaves gaps
// between lines.
func Terminal(lines []string) string {
	var all strings.Builder
	widest := 0
	for i, line := range lines {
		style, x := styles["0"], 0
		for line != "" {
			next := sequence.FindStringSubmatchIndex(line)
			text := line
			if next != nil {
				text = line[:next[0]]
			}
			x += span(&all, x, i, style, text)
			if next == nil {
				break
			}
			if known, ok := styles[line[next[2]:next[3]]]; ok && line[next[1]-1] == 'm' {
				style = known
			}
			line = line[next[1]:]
		}
		widest = max(widest, x)
	}
	w, h := widest*cell+2*margin, len(lines)*row+2*margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d">
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
%[3]s</svg>
`, w, h, all.String())
}

// span draws a text of one style from a column of a line, and returns its columns.
func span(all *strings.Builder, x, line int, style, text string) int {
	runes := []rune(text)
	for i := 0; i < len(runes); {
		n := 1
		for i+n < len(runes) && runes[i+n] == runes[i] {
			n++
		}
		if eighths := strings.IndexRune("▁▂▃▄▅▆▇█", runes[i]) / len("▁"); strings.ContainsRune("▁▂▃▄▅▆▇█░", runes[i]) {
			shade := ""
			if runes[i] == '░' {
				eighths, shade = 7, ` opacity="0.25"`
			}
			height := float64(row) * float64(eighths+1) / 8
			fmt.Fprintf(all, `<rect x="%d" y="%.4g" width="%d" height="%.4g" %s%s/>`+"\n", margin+cell*(x+i),
				float64(margin+row*(line+1))-height, cell*n, height, style, shade)
			for j := range n {
				runes[i+j] = ' '
			}
		}
		i += n
	}
	plain := string(runes)
	for _, at := range words.FindAllStringIndex(plain, -1) {
		fmt.Fprintf(all, `<text x="%d" y="%d" %s>%s</text>`+"\n", margin+cell*(x+len([]rune(plain[:at[0]]))),
			margin+row*(line+1)-4, style, html.EscapeString(plain[at[0]:at[1]]))
	}
	return len(runes)
}
