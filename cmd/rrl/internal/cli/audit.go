package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/look"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
)

func (a *app) audit() *cobra.Command {
	var fix, yes bool
	most := mostLimiters
	cmd := &cobra.Command{
		Use:   "audit [PATTERN]",
		Short: "Say what is wrong with limiters, and repair it with --fix; exit code 1 where problems are left",
		Long: `audit looks at every limiter, or those of a PATTERN: whether free permits and grants are the rate together, at state that belongs to
nobody, grants of old releases, expiries, names that no cluster can hold, and intervals with more permits than the rate.
Without --fix it only reads.

A repair is one script, which changes nothing where the limiter has changed since it was looked at. What takes keys or members
away asks first.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := checkMax(most); err != nil {
				return err
			}
			redis, reader, err := a.open(ctx, fix)
			if err != nil {
				return err
			}
			defer redis.Close()
			found, err := a.find(ctx, redis, reader, pattern(args), most, listPages)
			if err != nil {
				return err
			}
			findings, err := audit.Check(ctx, reader, found, auditPages)
			if err != nil {
				return err
			}
			var failure error
			if fix {
				failure = a.fix(ctx, reader, findings, yes)
			}
			result := report.NewAudit(len(report.NewList(found).Limiters), found.More, findings)
			// Also where a repair failed: others were done.
			if err := a.print(result, result.Text); err != nil || failure != nil {
				return errors.Join(failure, err)
			}
			if result.Problems > 0 {
				return errDenied
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before keys or members are deleted")
	cmd.Flags().IntVar(&most, "max", mostLimiters, "limiters of each layout to look at, at most; 0 for all")
	return cmd
}

// fix repairs findings. Those whose repair deletes something wait for a word, which is asked for once. Where Redis refuses one the others
// are repaired nevertheless; where it does not answer, or ctx ends, those that are left are not tried.
func (a *app) fix(ctx context.Context, reader *look.Reader, findings []*audit.Finding, yes bool) error {
	deletes := 0
	for _, f := range findings {
		if f.Deletes {
			deletes++
		}
	}
	var refused, failure error
	if deletes > 0 {
		refused = a.confirm(ctx, yes, fmt.Sprintf("delete what is left behind or no grant, in %d places (rrl audit lists them)", deletes))
	}
	ended := ctx.Err()
	for _, f := range findings {
		switch {
		case f.Repair == "":
			continue
		case ended != nil:
			f.Result = audit.Untried
			continue
		case f.Deletes && refused != nil:
			f.Result = audit.Refused + ", for it deletes: --yes"
			continue
		}
		err := f.Fix(ctx, reader)
		if err == nil {
			continue
		}
		if _, said := rueidis.IsRedisErr(err); !said {
			ended = err
		}
		failure = cmp.Or(failure, fmt.Errorf("%q, %s: %w", f.Limiter, f.Repair, reader.Redis.Explain(err)))
	}
	return cmp.Or(failure, ended)
}
