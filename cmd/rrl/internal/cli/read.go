package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
)

// The most pages of 256 grants to read per limiter: a list need not be exact for a million grants.
const (
	listPages  = 16
	showPages  = 400
	auditPages = 4000
)

// maxLimiters bounds the memory of a list.
const maxLimiters = 10_000

func (a *app) ls() *cobra.Command {
	most := maxLimiters
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List limiters, Redisson's and those of package limit",
		Long: `ls finds limiters by SCAN, on every master of a cluster, and shows the taken permits. It only reads.

PATTERN is a pattern of Redis: * ? [a-z]. TAKEN and FREE of a PER_CLIENT limiter are those of the
client that has taken the most. Redis does not hold the limits of package limit, so RATE and FREE of
its limiters are unknown. If some masters of a cluster do not answer, ls shows the limiters of the
others, names those masters and ends with exit code 3.`,
		Args: cobra.MaximumNArgs(1),
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			found, err := a.find(cmd.Context(), args, most, false)
			if err != nil {
				return err
			}
			list := report.NewList(found)
			err = a.print(list, func(w *strings.Builder) { list.Text(w, screen.Columns(a.out)) })
			return cmp.Or(err, incompleteError(found.Missing))
		}),
	}
	cmd.Flags().IntVar(&most, "max", maxLimiters,
		"the most limiters of each layout to show; the others are counted; 0 for all")
	return cmd
}

// find connects and finds the limiters of a PATTERN, all without one.
func (a *app) find(ctx context.Context, args []string, most int, changes bool) (*inspect.Found, error) {
	if most < 0 {
		return nil, fmt.Errorf("--max %d: want 0 or more; 0 means all", most)
	}
	if err := a.open(ctx, changes); err != nil {
		return nil, err
	}
	search := inspect.Search{Most: most, Pages: listPages}
	if len(args) > 0 {
		search.Pattern = args[0]
	}
	progress, done := a.progress()
	defer done()
	search.Progress = progress
	return a.reader.Find(ctx, search)
}

// progress returns a function that shows the number of scanned keys in a line of the terminal, nil without
// a terminal, and one that removes the line.
func (a *app) progress() (report func(string, uint64), done func()) {
	if !screen.CanDraw(a.err) {
		return nil, func() {}
	}
	const often = 200 * time.Millisecond
	next, shown := time.Now().Add(often), ""
	return func(node string, walked uint64) {
			if time.Now().Before(next) {
				return
			}
			next, shown = time.Now().Add(often), "\r\x1b[K"
			a.say("%s%s", shown, ansi.Truncate(fmt.Sprintf("%s: %d keys", node, walked), screen.Columns(a.err)-1, "…"))
		}, func() {
			a.say("%s", shown)
		}
}

func (a *app) show() *cobra.Command {
	var policies []string
	var all bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one limiter: rate, permits, when they return, clients and problems",
		Long: `show reports all state of a limiter in Redis. It only reads. It finds clients of a PER_CLIENT
limiter, and policies of package limit without --policy, by SCAN; on a cluster, on the one master
that has the keys. If the name has an OVERALL limiter, --all searches for policies and left-over
state too.`,
		Args: oneName,
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			given, err := parse(policies)
			if err != nil {
				return err
			}
			if err := a.open(cmd.Context(), false); err != nil {
				return err
			}
			limiter, err := a.limiter(cmd.Context(), args[0], given, all)
			if err != nil {
				return err
			}
			if limiter.Empty() {
				return fmt.Errorf("there is no limiter %q: rrl ls lists the limiters; one of package limit has no key while nothing is taken", args[0])
			}
			if err := a.print(limiter, limiter.Text); err != nil {
				return err
			}
			if corrupt := limiter.Corrupt(); corrupt != "" {
				return fmt.Errorf("%q is corrupt: %s", args[0], corrupt)
			}
			return nil
		}),
	}
	policyFlag(cmd, &policies, "the program's policies of package limit, to show their limits")
	cmd.Flags().BoolVar(&all, "all", false, "always search for keys of the name by SCAN")
	return cmd
}

func (a *app) limiter(ctx context.Context, name string, given []names.Given, all bool) (report.Limiter, error) {
	progress, done := a.progress()
	found, err := a.reader.Of(ctx, name, inspect.Search{
		Most: maxLimiters, Pages: showPages, Given: given, All: all, Progress: progress,
	})
	done()
	if err != nil {
		return report.Limiter{}, err
	}
	findings, err := audit.Check(ctx, a.reader, found, showPages)
	if err != nil {
		return report.Limiter{}, err
	}
	for _, l := range found.Redisson {
		for _, p := range l.Pairs {
			if err := a.reader.Timeline(ctx, l.Config, p, timelineSteps, showPages); err != nil {
				return report.Limiter{}, err
			}
		}
	}
	return report.NewLimiter(name, found, given, findings), nil
}

// timelineSteps is the resolution of returning permits: steps per interval.
const timelineSteps = 20

type sampleFlags struct {
	every time.Duration
	count int
}

func (s *sampleFlags) flags(cmd *cobra.Command, every time.Duration) {
	cmd.Flags().DurationVar(&s.every, "every", every, "time between two samples")
	cmd.Flags().IntVar(&s.count, "count", 0, "end after this number of samples; 0 for never")
}

func (s *sampleFlags) check() error {
	if s.every < 50*time.Millisecond || s.count < 0 {
		return fmt.Errorf("--every %v --count %d: want at least 50ms, and a count of 0 or more", s.every, s.count)
	}
	return nil
}

func (a *app) watch() *cobra.Command {
	var s sampleFlags
	var policies []string
	cmd := &cobra.Command{
		Use:   "watch NAME...",
		Short: "Show the use of limiters over time",
		Long: `watch samples limiters periodically and plots the taken permits against the rate, and by client for
a PER_CLIENT limiter. It only reads. If the output is not a terminal, it writes a line per sample.
It cannot show waiting callers, since Redis does not know them.`,
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), noEmptyName),
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			given, err := parse(policies)
			if err != nil {
				return err
			}
			if err := s.check(); err != nil {
				return err
			}
			if err := a.open(cmd.Context(), false); err != nil {
				return err
			}
			w := &watch.Watcher{Reader: a.reader, Names: args, Given: given}
			return w.Run(cmd.Context(), a.out, a.redis.Where, s.every, s.count, a.json())
		}),
	}
	s.flags(cmd, time.Second)
	policyFlag(cmd, &policies, "the programs' policies of package limit, to show their limits")
	return cmd
}

func (a *app) demo() *cobra.Command {
	var s sampleFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show watch on an in-memory Redis with some callers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return watch.Demo(cmd.Context(), a.out, s.every, s.count, a.json())
		},
	}
	s.flags(cmd, 250*time.Millisecond)
	return cmd
}

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

Exit code 0 means that all limiters were checked and no problem is left, 3 that some masters of a
cluster do not answer.`,
		Args: cobra.MaximumNArgs(1),
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
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
			if err := incompleteError(found.Missing); err != nil {
				return err
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
