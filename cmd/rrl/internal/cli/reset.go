package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/limit"
)

func (a *app) reset() *cobra.Command {
	var client string
	var yes, all bool
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Free all taken permits of a limiter; the rate stays",
		Long: `reset frees all permits of a limiter, of all clients or of one. It also resets policies of package
limit with the name; if the name has an OVERALL limiter, only with --all. Without --yes it
shows what it would free.`,
		Args: oneName,
		RunE: named(func(cmd *cobra.Command, args []string) error {
			ctx, name := cmd.Context(), args[0]
			if _, err := clientID(client); err != nil {
				return err
			}
			if client != "" {
				client = uuid.MustParse(client).String() // in the form of keys
			}
			if err := a.open(ctx, true); err != nil {
				return err
			}
			found, err := a.reader.Of(ctx, name, inspect.Search{Pages: listPages, All: all})
			if err != nil {
				return err
			}
			counts := a.resets(name, client, found)
			if len(counts) == 0 {
				return fmt.Errorf("%q has nothing to reset: rrl ls lists the limiters, rrl show NAME their clients", name)
			}
			if err := agreed(yes, effect(name, counts)); err != nil {
				return err
			}
			for _, r := range counts {
				if err := r.limiter.Reset(ctx); err != nil {
					return a.explain(err)
				}
				done := wasReset{names.Name(name), r.what, r.taken}
				err := a.print(done, func(w *strings.Builder) {
					fmt.Fprintf(w, "reset: %s %s, %s\n", names.Quote(name), r.what, permits(r.taken))
				})
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&client, "client", "", "the ID of a client of a PER_CLIENT limiter, to reset only its permits")
	cmd.Flags().BoolVar(&all, "all", false, "look for policies of the name by SCAN in any case")
	cmd.Flags().BoolVar(&yes, "yes", false, "free the permits")
	return cmd
}

type resetting struct {
	what    string
	taken   int64
	limiter interface{ Reset(context.Context) error }
}

type wasReset struct {
	Limiter names.Name `json:"limiter"`
	What    string     `json:"reset"`
	Taken   int64      `json:"taken"`
}

// effect describes what resetting all would do. A limiter that grants on credit can deny without taken
// permits.
func effect(name string, all []resetting) string {
	var sum int64
	for _, r := range all {
		sum += r.taken
	}
	if sum == 0 {
		return fmt.Sprintf("reset %q, which has no taken permits", name)
	}
	return fmt.Sprintf("free %s of %q", permits(sum), name)
}

func permits(n int64) string {
	if n == 0 {
		return "nothing was taken"
	}
	return report.Plural(n, "permit")
}

func (a *app) resets(name, client string, found *inspect.Found) []resetting {
	var all []resetting
	for _, l := range found.Redisson {
		for _, p := range l.Pairs {
			if client != "" && p.Client != client {
				continue
			}
			what, options := l.Config.Type.String(), []rratelimiter.Option(nil)
			if p.Client != "" {
				id, err := uuid.Parse(p.Client)
				if err != nil {
					continue // not a client of Redisson
				}
				what, options = "client "+p.Client, append(options, rratelimiter.WithClientID(id))
			}
			all = append(all, resetting{what, p.Taken, limit.Join(a.limiters(options...).Limiter(name))})
		}
	}
	for _, p := range found.Policies {
		if client == "" && p.TTL != inspect.NoKey && len(p.Wrong) == 0 {
			all = append(all, resetting{p.Stored.String(), p.Taken, limit.New(a.limiters(), name, p.Stored.Policy)})
		}
	}
	return all
}
