package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
)

func (a *app) audit() *cobra.Command {
	var fix bool
	most := maxLimiters
	cmd := &cobra.Command{
		Use:   "audit [PATTERN]",
		Short: "Report problems of limiters, and repair them with --fix",
		Long: `audit checks every limiter, or those of a PATTERN: the sum of free permits and grants, state without
a limiter, expiries, names that no cluster can hold, and intervals with more
permits than the rate. Without --fix it only reads.

--fix makes the repairs that it names otherwise. A repair changes nothing if the limiter has changed
since it was read. A count of the permits finds what is true at its own time.

Exit code 0 means that all limiters were checked and no problem is left.`,
		Args: cobra.MaximumNArgs(1),
		RunE: named(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			found, err := a.find(ctx, args, most, fix)
			if err != nil {
				return err
			}
			findings, err := audit.Check(ctx, a.reader, found, auditPages)
			if err != nil {
				return err
			}
			var failure error
			if fix {
				failure = a.fix(ctx, findings)
			}
			result := report.NewAudit(found, findings)
			// A repair that failed does not hide the others.
			if err := a.print(result, result.Text); err != nil || failure != nil {
				return errors.Join(failure, err)
			}
			if result.Problems > 0 || result.LeftOut > 0 || result.Newer > 0 {
				return errDenied
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "make the repairs")
	cmd.Flags().IntVar(&most, "max", maxLimiters, "the most limiters of each layout to check; 0 for all")
	return cmd
}

// fix makes the repairs. If Redis rejects one, fix makes the others. If Redis does not answer, or ctx ends,
// fix does not try the rest.
func (a *app) fix(ctx context.Context, findings []*audit.Finding) (failure error) {
	for _, f := range findings {
		err := f.Fix(ctx, a.reader, auditPages)
		if err == nil {
			continue
		}
		failure = cmp.Or(failure, fmt.Errorf("%q, %s: %w", f.Limiter, f.Repair, a.redis.Explain(err)))
		if _, said := rueidis.IsRedisErr(err); !said {
			break
		}
	}
	return failure
}
