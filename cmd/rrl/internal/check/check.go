// Package check reads files of limits and reports their content or errors. It does not use Redis.
package check

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// Formats.
const (
	Rules = "rules" // of package rules
	Envoy = "envoy" // of package rls: what rrl serve reads
)

// File is the result for a file or a folder.
type File struct {
	File    string              `json:"file"`
	Format  string              `json:"format"`
	Right   bool                `json:"right"`
	Rules   int                 `json:"rules,omitempty"`   // of package rules
	Limits  int                 `json:"limits,omitempty"`  // of an Envoy configuration
	Domains []string            `json:"domains,omitempty"` // of an Envoy configuration
	Warned  []string            `json:"warnings,omitempty"`
	Errors  []*rulefile.Problem `json:"errors"` // the first 20 of each file
}

// Check reads a file, or a folder of Envoy configurations. With merge, several may have one domain.
func Check(path string, merge bool) File {
	f := File{File: path, Format: formatOf(path), Errors: []*rulefile.Problem{}}
	var err error
	if f.Format == Envoy {
		var all *rls.Rules
		if all, err = rls.Load(path, merge); err == nil {
			f.Limits, f.Domains = all.Len(), all.Domains()
		}
	} else {
		var set *rules.Set
		if set, err = rules.Load(path); err == nil {
			f.Rules, f.Warned = set.Len(), set.Warnings()
		}
	}
	f.Right = err == nil
	f.Errors = append(f.Errors, rulefile.ProblemsOf(err)...)
	return f
}

// field matches a top-level field that only one of the formats has, in YAML or JSON, half-written too.
var field = regexp.MustCompile(`(?m)(?:^|[{,]\s*|^\s*")["']?(rules|descriptors|slot_by)["']?\s*:`)

// formatOf detects the format by the top-level fields of a file. Unreadable files count as rules.
func formatOf(path string) string {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return Envoy
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > rulefile.MaxBytes { // opening a pipe could block forever
		return Rules
	}
	text, _ := os.ReadFile(path) // the package reports the error
	if found := field.FindSubmatch(text); found != nil && string(found[1]) != "rules" {
		return Envoy
	}
	return Rules
}

// Text writes a line for the file, or one for each error: FILE:LINE:COLUMN: FIELD: REASON, without unknown
// parts.
func (f File) Text(w *strings.Builder) {
	for _, m := range f.Errors {
		w.WriteString(oneLine(m.Error()) + "\n")
	}
	for _, text := range f.Warned {
		fmt.Fprintf(w, "%s: warning: %s\n", printable(f.File), text)
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
