package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/limit"
)

func (a *app) pause() *cobra.Command {
	return &cobra.Command{
		Use:   "pause NAME TIME",
		Short: "Deny everything for a time, in programs whose limiter has a Pause",
		Long: `pause has a limiter of package limit deny everything for a TIME from now on, such as 30s. A longer
pause stays. 0 ends the pause. Programs take part if their limiter NAME has a limit.Pause; others go
on. The longest pause of a program does not bound this command.`,
		Example: `  rrl pause paid-api 30s
  rrl pause paid-api 0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return fmt.Errorf("%s takes a name and a time: rrl pause paid-api 30s", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, name := cmd.Context(), names.Unquote(args[0])
			var d time.Duration
			if args[1] != "0" {
				var err error
				if d, err = notation.ParseDuration(args[1]); err != nil {
					return err
				}
			}
			if err := a.open(ctx, true); err != nil {
				return err
			}
			most := max(d+time.Millisecond-1, time.Millisecond).Truncate(time.Millisecond)
			l := limit.New(a.limiters(), name, limit.Pause{Most: most})
			if err := l.Pause(ctx, d); err != nil {
				return a.explain(err)
			}
			var rest time.Duration
			if d > 0 {
				now, err := l.Peek(ctx)
				if err != nil {
					return a.explain(err)
				}
				rest = now[0].RetryAfter
			}
			done := paused{names.Name(name), rest.Milliseconds()}
			return a.print(done, func(w *strings.Builder) {
				switch {
				case d == 0:
					fmt.Fprintf(w, "not paused: %s\n", names.Quote(name))
				case rest > d+time.Second:
					fmt.Fprintf(w, "paused: %s, for %s by a longer pause\n", names.Quote(name), names.About(rest))
				default:
					fmt.Fprintf(w, "paused: %s, for %s, in programs whose limiter has a limit.Pause\n", names.Quote(name),
						names.About(rest))
				}
			})
		},
	}
}

type paused struct {
	Limiter names.Name `json:"limiter"`
	Rest    int64      `json:"paused_ms"`
}
