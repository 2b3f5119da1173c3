package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
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
its limiters are unknown.`,
		Args: cobra.MaximumNArgs(1),
		RunE: named(func(cmd *cobra.Command, args []string) error {
			found, err := a.find(cmd.Context(), args, most, false)
			if err != nil {
				return err
			}
			list := report.NewList(found)
			return a.print(list, func(w *strings.Builder) { list.Text(w, screen.Columns(a.out)) })
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
			a.say("%s%s", shown, screen.Cut(fmt.Sprintf("%s: %d keys", node, walked), screen.Columns(a.err)-1))
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
		RunE: named(func(cmd *cobra.Command, args []string) error {
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
