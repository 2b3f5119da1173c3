// Package report formats results as text and JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
)

// JSON writes a value as one line without control sequences.
func JSON(w io.Writer, value any) error {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, escape(line.String(), func(c rune) string {
		escaped := ""
		for _, unit := range utf16.Encode([]rune{c}) {
			escaped += fmt.Sprintf(`\u%04x`, unit)
		}
		return escaped
	}))
	return err
}

// newer writes how many keys are those of policies of a newer version.
func newer(w *strings.Builder, n int64) {
	if n > 0 {
		fmt.Fprintf(w, "and %s of policies of a newer version of rrl\n", Plural(n, "key"))
	}
}

// Printable escapes the unprintable characters of a text, except line breaks.
func Printable(text string) string {
	return escape(text, func(c rune) string { return strings.Trim(strconv.QuoteRune(c), "'") })
}

func escape(text string, as func(rune) string) string {
	var escaped strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) || c == '\n' || c == '\t' {
			escaped.WriteRune(c)
		} else {
			escaped.WriteString(as(c))
		}
	}
	return escaped.String()
}

// widest bounds the width of a column: the row of a longer name exceeds it alone.
const widest = 100

// table writes rows under headings. If the terminal is too narrow, it writes each row as several lines.
func table(w *strings.Builder, columns int, head []string, rows [][]string) {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], min(widest, screen.Width(cell)))
		}
	}
	width := 2 * (len(widths) - 1)
	for _, n := range widths {
		width += n
	}
	if columns > 0 && width > columns {
		for _, row := range rows {
			fmt.Fprintln(w, row[0])
			for i, cell := range row[1:] {
				fmt.Fprintf(w, "  %s %s\n", strings.ToLower(head[i+1]), cell)
			}
		}
		return
	}
	for _, row := range append([][]string{head}, rows...) {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			line.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-screen.Width(cell))))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func expires(ms int64) string {
	switch {
	case ms == inspect.Forever:
		return "never"
	case ms < 0:
		return "-"
	}
	return "in " + after(ms)
}

func after(ms int64) string { return names.About(time.Duration(ms) * time.Millisecond) }

// Plural formats a number of things.
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
