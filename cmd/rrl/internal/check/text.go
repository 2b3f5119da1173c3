package check

import (
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
)

// Text writes a line for the file, or one for each error: FILE:LINE:COLUMN: FIELD: REASON, without unknown
// parts.
func (f File) Text(w *strings.Builder) {
	for _, m := range f.Errors {
		w.WriteString(oneLine(m.text) + "\n")
	}
	switch {
	case !f.Right:
	case f.Format == Envoy:
		fmt.Fprintf(w, "%s: Envoy's format, %s, domain %s\n", printable(f.File), report.Plural(int64(f.Limits), "limit"),
			printable(strings.Join(f.Domains, ", ")))
	default:
		fmt.Fprintf(w, "%s: %s\n", printable(f.File), report.Plural(int64(f.Rules), "rule"))
	}
}

func oneLine(text string) string { return report.Printable(strings.Join(strings.Fields(text), " ")) }

// printable escapes all unprintable characters of a name, line breaks too.
func printable(name string) string {
	return report.Printable(strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(name))
}
