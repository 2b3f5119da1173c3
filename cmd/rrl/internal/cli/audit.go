package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
)

func (a *app) audit() *cobra.Command {
	var fix, yes bool
	most := maxLimiters
	cmd := &cobra.Command{
		Use:   "audit [PATTERN]",
		Short: "Report problems of limiters, and repair them with --fix",
		Long: `audit checks every limiter, or those of a PATTERN: the sum of free permits and grants, state without
a limiter, expiries, names that no cluster can hold, and intervals with more
permits than the rate. Without --fix it only reads.

--fix asks before it repairs. A repair changes nothing if the limiter has changed since it was read.

Exit code 0 means that all limiters were checked and no problem is left.`,
		Args: cobra.MaximumNArgs(1),
		RunE: named(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := checkMax(most); err != nil {
				return err
			}
			if err := a.open(ctx, fix); err != nil {
				return err
			}
			found, err := a.find(ctx, patternOf(args), most, listPages)
			if err != nil {
				return err
			}
			findings, err := audit.Check(ctx, a.reader, found, auditPages)
			if err != nil {
				return err
			}
			var failure error
			if fix {
				failure = a.fix(ctx, findings, yes)
			}
			result := report.NewAudit(found, findings)
			// A repair that failed does not hide the others.
			if err := a.print(result, result.Text); err != nil || failure != nil {
				return errors.Join(failure, err)
			}
			if result.Problems > 0 || result.LeftOut > 0 {
				return errDenied
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "make the repairs")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before the repairs")
	cmd.Flags().IntVar(&most, "max", maxLimiters, "the most limiters of each layout to check; 0 for all")
	return cmd
}

// fix makes the repairs after one confirmation. If Redis rejects one, fix makes the others. If Redis does
// not answer, or ctx ends, fix does not try the rest.
func (a *app) fix(ctx context.Context, findings []*audit.Finding, yes bool) error {
	repairs := slices.DeleteFunc(slices.Clone(findings), func(f *audit.Finding) bool { return f.Repair == "" })
	if len(repairs) == 0 {
		return nil
	}
	refused, ended := a.agree(ctx, repairs, yes), ctx.Err()
	var failure error
	for _, f := range repairs {
		switch {
		case ended != nil:
			f.Result = audit.Untried
			continue
		case refused != nil:
			f.Result = audit.Refused
			if !errors.Is(refused, errUnchanged) {
				f.Result += " (use --yes)"
			}
			continue
		}
		err := f.Fix(ctx, a.reader, auditPages)
		if err == nil {
			continue
		}
		if _, said := rueidis.IsRedisErr(err); !said {
			ended = err
		}
		failure = cmp.Or(failure, fmt.Errorf("%q, %s: %w", f.Limiter, f.Repair, a.redis.Explain(err)))
	}
	return cmp.Or(failure, ended)
}

// agree asks for a confirmation of the repairs. On a terminal it lists them first.
func (a *app) agree(ctx context.Context, repairs []*audit.Finding, yes bool) error {
	if !yes && a.canAsk() {
		for _, f := range repairs {
			a.say("%s: %s\n", names.Quote(string(f.Limiter)), report.Printable(f.Repair))
		}
	}
	return a.confirm(ctx, yes, fmt.Sprintf("make %s", report.Plural(int64(len(repairs)), "repair")))
}
