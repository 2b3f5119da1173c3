package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/check"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
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
			files := make([]check.File, len(args))
			wrong, mistakes := 0, 0
			for i, path := range args {
				files[i] = check.Check(path, merge)
				if !files[i].Right {
					wrong++
					mistakes += len(files[i].Errors)
				}
			}
			err := a.print(files, func(w *strings.Builder) {
				for _, f := range files {
					f.Text(w)
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
