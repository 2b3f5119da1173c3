package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/demo"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
)

type seen struct {
	every time.Duration
	count int
}

func (s *seen) flags(cmd *cobra.Command, every time.Duration) {
	cmd.Flags().DurationVar(&s.every, "every", every, "time between two samples")
	cmd.Flags().IntVar(&s.count, "count", 0, "end after this number of samples; 0 for never")
}

func (s *seen) check() error {
	if s.every < 50*time.Millisecond || s.count < 0 {
		return fmt.Errorf("--every %v --count %d: want at least 50ms, and a count of 0 or more", s.every, s.count)
	}
	return nil
}

func (a *app) watch() *cobra.Command {
	var s seen
	var policies []string
	cmd := &cobra.Command{
		Use:   "watch NAME...",
		Short: "Show the use of limiters over time",
		Long: `watch samples limiters periodically and plots the taken permits against the rate, and by client for
a PER_CLIENT limiter. It only reads. If the output is not a terminal, it writes a line per sample.
It cannot show waiting callers, since Redis does not know them.`,
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), noEmptyName),
		RunE: named(func(cmd *cobra.Command, args []string) error {
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
	var s seen
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show watch on an in-memory Redis with some callers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return demo.Run(cmd.Context(), a.out, s.every, s.count, a.json())
		},
	}
	s.flags(cmd, 250*time.Millisecond)
	return cmd
}
