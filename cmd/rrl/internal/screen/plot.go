package screen

import (
	"math"
	"strings"
)

// blocks are eighths of a cell, from below.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Plot draws shares from 0 to 1 as columns, the newest at the right. It draws shares above 1 as 1 and NaN
// as a gap.
func Plot(shares []float64, width, height int) []string {
	shares = shares[max(0, len(shares)-width):]
	rows := make([]string, height)
	for row := range rows {
		above := height - 1 - row // rows below this one
		var line strings.Builder
		line.WriteString(strings.Repeat(" ", width-len(shares)))
		for _, share := range shares {
			eighths := 0
			if !math.IsNaN(share) {
				eighths = int(math.Round(min(1, max(0, share)) * float64(8*height)))
				if share > 0 && eighths == 0 {
					eighths = 1 // a small share stays visible
				}
			}
			line.WriteString(Level(share).Text(string(blocks[min(8, max(0, eighths-8*above))])))
		}
		rows[row] = line.String()
	}
	return rows
}

// Bar draws a share as a row.
func Bar(share float64, width int) string {
	full := int(math.Round(min(1, max(0, share)) * float64(width)))
	return Level(share).Text(strings.Repeat("█", full) + strings.Repeat("░", width-full))
}

// Level returns the style of a share.
func Level(share float64) Style {
	switch {
	case share >= 1:
		return Bad
	case share >= 0.8:
		return Warn
	}
	return Good
}
