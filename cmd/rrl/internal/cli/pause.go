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
		Args: nameAndValue,
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
			text := "not paused: " + names.Quote(name)
			if d > 0 {
				text = fmt.Sprintf("paused: %s, for %s", names.Quote(name), names.About(rest))
				if rest > d+time.Second {
					text += " by a longer pause"
				} else {
					text += ", in programs whose limiter has a limit.Pause"
				}
			}
			return a.print(paused{names.Name(name), rest.Milliseconds()}, func(w *strings.Builder) { fmt.Fprintln(w, text) })
		},
	}
}

type paused struct {
	Limiter names.Name `json:"limiter"`
	Rest    int64      `json:"paused_ms"`
}
