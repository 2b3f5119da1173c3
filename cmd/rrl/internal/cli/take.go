package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/limit"
)

// taker has the common methods of both packages' limiters.
type taker interface {
	TakeWithin(ctx context.Context, permits int64, timeout time.Duration) (rratelimiter.Decision, error)
	Release(ctx context.Context, permits int64) error
}

// target has the flags that select a limiter.
type target struct {
	policies []string
	client   string
	permits  int64
}

func (t *target) flags(cmd *cobra.Command, verb string) {
	cmd.Flags().Int64VarP(&t.permits, "permits", "n", 1, "permits to "+verb)
	cmd.Flags().StringVar(&t.client, "client", "", "the ID of a client of a PER_CLIENT limiter")
	policyFlag(cmd, &t.policies, "policies of a limiter of package limit")
}

// open connects and returns the limiter. A PER_CLIENT limiter requires --client: the tool itself is not a
// client and would leave state behind.
func (t *target) open(ctx context.Context, a *app, name string) (taker, error) {
	if t.permits < 1 || t.permits > math.MaxUint32 {
		return nil, fmt.Errorf("--permits %d: want 1 to %d", t.permits, uint32(math.MaxUint32))
	}
	given, err := parse(t.policies)
	if err != nil {
		return nil, err
	}
	options, err := clientID(t.client)
	if err != nil {
		return nil, err
	}
	if err := a.open(ctx, true); err != nil {
		return nil, err
	}
	client := a.limiters(options...)
	if len(given) > 0 {
		var policies []limit.Policy
		for _, g := range given {
			policies = append(policies, g.Policy)
		}
		return limit.New(client, name, policies...), nil
	}
	l := client.Limiter(name)
	rate, err := l.Config(ctx)
	if err != nil {
		return nil, a.explain(err)
	}
	if rate.Type == rratelimiter.PerClient && t.client == "" {
		return nil, fmt.Errorf("%q is PER_CLIENT: name a client by --client ID; rrl show lists the clients", name)
	}
	return l, nil
}

type tryResult struct {
	Limiter    names.Name `json:"limiter"`
	Permits    int64      `json:"permits"`
	Allowed    bool       `json:"allowed"`
	Limit      int64      `json:"limit,omitempty"`
	Remaining  int64      `json:"remaining"`
	RetryAfter int64      `json:"retry_after_ms"`
	ResetAfter int64      `json:"reset_after_ms"`
}

type releaseResult struct {
	Limiter names.Name `json:"limiter"`
	AtMost  int64      `json:"released_at_most"`
}

func (t tryResult) text(w *strings.Builder) {
	if t.Allowed {
		fmt.Fprintf(w, "granted: %d of %s, %d left of %d\n", t.Permits, names.Quote(string(t.Limiter)), t.Remaining, t.Limit)
		return
	}
	fmt.Fprintf(w, "denied: %d of %s, %d left of %d, retry after %s\n",
		t.Permits, names.Quote(string(t.Limiter)), t.Remaining, t.Limit,
		names.AboutMillis(t.RetryAfter))
}

func (a *app) try() *cobra.Command {
	var t target
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "try NAME",
		Short: "Take permits; exit code 1 if they are denied",
		Args:  oneName,
		Example: `  rrl try paid-api -n 3
  rrl try login:ada --policy fixed_window:5/1m --policy fixed_window:20/1h`,
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if wait < 0 {
				return fmt.Errorf("--wait %v: want 0 or more", wait)
			}
			l, err := t.open(ctx, a, args[0])
			if err != nil {
				return err
			}
			var taken limit.Taken
			var d rratelimiter.Decision
			if own, ok := l.(*limit.Limiter); ok {
				d, err = taken.TakeWithin(ctx, t.permits, wait, own)
			} else {
				d, err = l.TakeWithin(ctx, t.permits, wait)
			}
			if d.Allowed {
				// The rates keep the permits. A place would stay for its lease: no call runs that returns it.
				err = taken.Settle(ctx, t.permits)
			}
			if err != nil {
				return a.explain(err)
			}
			result := tryResult{names.Name(args[0]), t.permits, d.Allowed, d.Limit, d.Remaining, millis(d.RetryAfter),
				millis(d.ResetAfter)}
			if err := a.print(result, result.text); err != nil {
				return err
			}
			if !d.Allowed {
				return errDenied
			}
			return nil
		}),
	}
	t.flags(cmd, "take")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the permits")
	return cmd
}

// millis returns a time in milliseconds, rounded up.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

func (a *app) release() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: "Release permits before they return by themselves",
		Args:  oneName,
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			l, err := t.open(ctx, a, args[0])
			if err != nil {
				return err
			}
			if err := l.Release(ctx, t.permits); err != nil {
				return a.explain(err)
			}
			done := releaseResult{names.Name(args[0]), t.permits}
			return a.print(done, func(w *strings.Builder) {
				fmt.Fprintf(w, "released: up to %d of %s\n", t.permits, names.Quote(args[0]))
			})
		}),
	}
	t.flags(cmd, "release, at most the taken ones")
	return cmd
}

func (a *app) reset() *cobra.Command {
	var client string
	var policies []string
	var yes, all bool
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Free all taken permits of a limiter; the rate stays",
		Long: `reset frees all permits of a limiter, of all clients or of one. It also resets policies of package
limit with the name; if the name has an OVERALL limiter, only with --all. With --policy it resets
these alone. Without --yes it shows what it would free.`,
		Args: oneName,
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			ctx, name := cmd.Context(), args[0]
			if _, err := clientID(client); err != nil {
				return err
			}
			if client != "" {
				client = uuid.MustParse(client).String() // in the form of keys
			}
			given, err := parse(policies)
			if err != nil {
				return err
			}
			if err := a.open(ctx, true); err != nil {
				return err
			}
			found, err := a.reader.Of(ctx, name, inspect.Search{Pages: listPages, All: all, Given: given})
			if err != nil {
				return err
			}
			if len(given) > 0 {
				found.Redisson = nil
				found.Policies = slices.DeleteFunc(found.Policies, func(p *inspect.Policy) bool {
					return !slices.ContainsFunc(given, func(g names.Given) bool { return g.Stored == p.Stored })
				})
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
				done := resetResult{names.Name(name), r.what, r.taken}
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
	policyFlag(cmd, &policies, "policies of package limit, to reset only these")
	cmd.Flags().BoolVar(&yes, "yes", false, "free the permits")
	return cmd
}

type reset struct {
	what    string
	taken   int64
	limiter interface{ Reset(context.Context) error }
}

type resetResult struct {
	Limiter names.Name `json:"limiter"`
	What    string     `json:"reset"`
	Taken   int64      `json:"taken"`
}

// effect describes what resetting all would do. A limiter that grants on credit can deny without taken
// permits.
func effect(name string, all []reset) string {
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

func (a *app) resets(name, client string, found *inspect.Found) []reset {
	var all []reset
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
			all = append(all, reset{what, p.Taken, limit.Join(a.limiters(options...).Limiter(name))})
		}
	}
	for _, p := range found.Policies {
		if client == "" && p.TTL != inspect.NoKey && len(p.Wrong) == 0 {
			all = append(all, reset{p.Stored.String(), p.Taken, limit.New(a.limiters(), name, p.Stored.Policy)})
		}
	}
	return all
}
