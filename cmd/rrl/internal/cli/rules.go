package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

func (a *app) rules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Check files of limits",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.rulesCheck())
	return cmd
}

func (a *app) rulesCheck() *cobra.Command {
	var merge bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Report errors in files of limits; exit code 2 if there are any",
		Long: `check reads files of limits: those of package rules, in YAML or JSON, and those in
envoyproxy/ratelimit's format, which have descriptors at the top level. It reads a folder as rrl
serve does. It does not connect to Redis.

Each error is a line FILE:LINE:COLUMN: FIELD: REASON, without the parts that are unknown. At most 20
errors of each file are reported.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files := make([]checkedFile, len(args))
			wrong, mistakes := 0, 0
			for i, path := range args {
				files[i] = checkFile(path, merge)
				if !files[i].Right {
					wrong++
					mistakes += len(files[i].Errors)
				}
			}
			err := a.print(files, func(w *strings.Builder) {
				for _, f := range files {
					f.text(w)
				}
			})
			if err == nil && wrong > 0 {
				err = fmt.Errorf("%s in %d of %s", report.Plural(int64(mistakes), "error"), wrong,
					report.Plural(int64(len(files)), "file"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&merge, "merge", false, "allow several files of a folder to have one domain")
	return cmd
}

// The formats of files.
const (
	rulesFormat = "rules" // of package rules
	envoyFormat = "envoy" // of package rls: what rrl serve reads
)

// checkedFile is the result for a file or a folder.
type checkedFile struct {
	File    string              `json:"file"`
	Format  string              `json:"format"`
	Right   bool                `json:"right"`
	Rules   int                 `json:"rules,omitempty"`   // of package rules
	Limits  int                 `json:"limits,omitempty"`  // of an Envoy configuration
	Domains []string            `json:"domains,omitempty"` // of an Envoy configuration
	Warned  []string            `json:"warnings,omitempty"`
	Errors  []*rulefile.Problem `json:"errors"` // the first 20 of each file
}

// checkFile reads a file, or a folder of Envoy configurations. With merge, several may have one domain.
func checkFile(path string, merge bool) checkedFile {
	f := checkedFile{File: path, Format: formatOf(path), Errors: []*rulefile.Problem{}}
	var err error
	if f.Format == envoyFormat {
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
		return envoyFormat
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > rulefile.MaxBytes { // opening a pipe could block forever
		return rulesFormat
	}
	text, _ := os.ReadFile(path) // the package reports the error
	if found := field.FindSubmatch(text); found != nil && string(found[1]) != "rules" {
		return envoyFormat
	}
	return rulesFormat
}

// text writes a line for the file, or one for each error: FILE:LINE:COLUMN: FIELD: REASON, without unknown
// parts.
func (f checkedFile) text(w *strings.Builder) {
	for _, m := range f.Errors {
		w.WriteString(oneLine(m.Error()) + "\n")
	}
	for _, text := range f.Warned {
		fmt.Fprintf(w, "%s: warning: %s\n", printable(f.File), text)
	}
	switch {
	case !f.Right:
	case f.Format == envoyFormat:
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
