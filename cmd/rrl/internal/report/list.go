// Package report formats results as text and JSON.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// tableRow is a limiter in a list. Taken and free of a PER_CLIENT limiter are those of the client
// with the most.
type tableRow struct {
	Name     names.Name `json:"name"`
	Kind     string     `json:"kind"` // OVERALL, PER_CLIENT, or a policy of package limit
	Permits  int64      `json:"permits,omitempty"`
	Interval int64      `json:"interval_ms,omitempty"`
	Taken    *int64     `json:"taken,omitempty"`
	Free     *int64     `json:"free,omitempty"`
	Clients  *int64     `json:"clients,omitempty"`
	Paused   *int64     `json:"paused_ms,omitempty"` // the rest of a pause; 0 after it
	TTL      int64      `json:"ttl_ms"`              // -1 for never
	Wrong    []string   `json:"wrong,omitempty"`

	rate string
}

// List is a list of limiters.
type List struct {
	Limiters []tableRow `json:"limiters"`
	LeftOut  int64      `json:"left_out,omitempty"` // keys of limiters that are not listed
	Newer    int64      `json:"newer,omitempty"`    // keys of policies that this version does not know
	Missing  []string   `json:"missing,omitempty"`  // servers whose limiters are not listed
}

// NewList creates a list, without keys that only look like a policy's.
func NewList(found *inspect.Found) List {
	l := List{Limiters: []tableRow{}, LeftOut: found.More, Newer: found.Newer, Missing: missing(found)}
	for _, r := range found.Redisson {
		l.Limiters = append(l.Limiters, redissonRow(r))
	}
	for _, p := range found.Policies {
		if p.TTL == inspect.NoKey || len(p.Wrong) > 0 {
			continue
		}
		line := tableRow{
			Name: names.Name(p.Name), Kind: p.Stored.String(), Interval: p.Stored.Interval.Milliseconds(), TTL: p.TTL,
		}
		switch {
		case p.Stored.Pauses():
			line.Paused = &p.Busy
		case !p.Stored.OnCredit():
			line.Taken = &p.Taken
		}
		l.Limiters = append(l.Limiters, line)
	}
	slices.SortStableFunc(l.Limiters, func(a, b tableRow) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

func redissonRow(l *inspect.Redisson) tableRow {
	line := tableRow{Name: names.Name(l.Name), TTL: l.TTL, Wrong: l.Wrong}
	if !l.Valid() {
		line.Kind = "corrupt"
		return line
	}
	line.Kind, line.rate = l.Config.Type.String(), names.Rate(l.Config)
	line.Permits, line.Interval = l.Config.Permits, l.Config.Interval.Milliseconds()
	var taken, free int64 = 0, l.Config.Permits
	for _, p := range l.Pairs {
		taken, free = max(taken, p.Taken), min(free, p.Free)
		line.Wrong = append(line.Wrong, p.Wrong...)
	}
	line.Taken, line.Free = &taken, &free
	if l.Config.Type == rratelimiter.PerClient {
		n := int64(len(l.Pairs))
		line.Clients = &n
	}
	return line
}

// Text writes the list as a table with at most the given columns; 0 means any number.
func (l List) Text(w *strings.Builder, columns int) {
	if len(l.Limiters) == 0 && l.LeftOut == 0 {
		fmt.Fprintln(w, "no limiters")
		writeMissing(w, l.Newer, l.Missing)
		return
	}
	var rows [][]string
	for _, r := range l.Limiters {
		expiry := expires(r.TTL)
		if r.Paused != nil && *r.Paused > 0 {
			expiry += "  paused for " + names.AboutMillis(*r.Paused)
		}
		if len(r.Wrong) > 0 {
			expiry += "  invalid, see rrl show"
		}
		rows = append(rows, []string{
			names.Quote(string(r.Name)), r.Kind, cmp.Or(r.rate, "-"), optional(r.Taken), optional(r.Free),
			optional(r.Clients), expiry,
		})
	}
	table(w, columns, []string{"NAME", "KIND", "RATE", "TAKEN", "FREE", "CLIENTS", "EXPIRES"}, rows)
	if l.LeftOut > 0 {
		fmt.Fprintf(w, "and %s of others: use a PATTERN or raise --max\n", Plural(l.LeftOut, "key"))
	}
	writeMissing(w, l.Newer, l.Missing)
}

func missing(found *inspect.Found) (nodes []string) {
	for _, m := range found.Missing {
		nodes = append(nodes, m.Node)
	}
	return nodes
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// Audit is the result of an audit.
type Audit struct {
	Limiters int              `json:"limiters"`
	Problems int              `json:"problems"` // unrepaired ones
	Findings []*audit.Finding `json:"findings"`
	LeftOut  int64            `json:"left_out,omitempty"`
	Newer    int64            `json:"newer,omitempty"`
	Missing  []string         `json:"missing,omitempty"` // servers whose limiters were not checked
}

// NewAudit counts findings.
func NewAudit(found *inspect.Found, findings []*audit.Finding) Audit {
	a := Audit{Limiters: len(NewList(found).Limiters), Findings: findings, LeftOut: found.More, Newer: found.Newer,
		Missing: missing(found)}
	for _, f := range findings {
		if f.Severity == audit.Problem && f.Result != audit.Repaired {
			a.Problems++
		}
	}
	return a
}

// Text writes the audit as text.
func (a Audit) Text(w *strings.Builder) {
	for _, f := range a.Findings {
		fmt.Fprintf(w, "%s  %s  %s\n  %s\n", f.Severity, f.Kind, names.Quote(string(f.Limiter)), f.Text)
		switch {
		case f.Result != "":
			fmt.Fprintf(w, "  %s: %s\n", f.Result, f.Repair)
		case f.Repair != "":
			fmt.Fprintf(w, "  --fix would %s\n", f.Repair)
		}
	}
	fmt.Fprintf(w, "%s, %s\n", Plural(int64(a.Limiters), "limiter"), Plural(int64(a.Problems), "problem"))
	if a.LeftOut > 0 {
		fmt.Fprintf(w, "%s of others were skipped: use a PATTERN or raise --max\n", Plural(a.LeftOut, "key"))
	}
	writeMissing(w, a.Newer, a.Missing)
}

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

// writeMissing writes how many keys are those of policies of a newer version, and which servers were not read.
func writeMissing(w *strings.Builder, newer int64, missing []string) {
	if newer > 0 {
		fmt.Fprintf(w, "and %s of policies of a newer version of rrl\n", Plural(newer, "key"))
	}
	for _, node := range missing {
		fmt.Fprintf(w, "and the limiters of %s, which does not answer\n", node)
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
			widths[i] = max(widths[i], min(widest, ansi.StringWidth(cell)))
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
			line.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(cell))))
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
	return "in " + names.AboutMillis(ms)
}

// Plural formats a number of things.
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
