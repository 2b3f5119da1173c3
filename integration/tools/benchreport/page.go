package main

import (
	"regexp"
	"strings"
)

var figureRow = regexp.MustCompile(`(?m)^\| ([^|]+: [^|]+) \| (\S+(?: \S+)?) \| (\S+) \|$`)

// withFigures puts the measured figures into the rows of performance.md that have a floor.
func withFigures(page string, checked []checkedFloor) string {
	measured := make(map[string]string)
	for _, f := range checked {
		measured[f.title] = f.format(f.got.median) + " | " + short(f.rate.median)
	}
	return figureRow.ReplaceAllStringFunc(page, func(row string) string {
		title := figureRow.FindStringSubmatch(row)[1]
		if got, ok := measured[title]; ok {
			return "| " + title + " | " + got + " |"
		}
		return row
	})
}

var block = regexp.MustCompile(`(?ms)^<!-- bench: (.+?) -->\n.*?^<!-- end -->\n`)

// withTables writes the blocks of performance.md: the text of the run, or the table of a benchmark with
// some of its columns.
func (r *results) withTables(page, verdict string) string {
	return block.ReplaceAllStringFunc(page, func(old string) string {
		what := block.FindStringSubmatch(old)[1]
		name, units, _ := strings.Cut(what, " ")
		text := verdict + "\n"
		if name != "run" {
			if r.rows[name] == nil {
				return old
			}
			text = r.table(name, strings.Fields(units)...)
		}
		return "<!-- bench: " + what + " -->\n" + text + "<!-- end -->\n"
	})
}
