package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/limit"
)

type change struct {
	kind      string
	keepAlive string
	forget    bool
	ifAbsent  bool
	yes       bool
}

func (a *app) set() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:   "set NAME RATE",
		Short: "Set the rate of a Redisson limiter and keep the taken permits",
		Long: `set sets or replaces the rate of a Redisson limiter. Java and Go programs use it from their next
call on. RATE is permits/interval, such as 100/1m. Taken permits stay taken, and type and keep-alive
stay, unless flags change them.`,
		Example: `  rrl set paid-api 100/1m
  rrl set tenants 20/s --type per-client --keep-alive 1h`,
		Args: nameAndValue,
		RunE: withNames(func(cmd *cobra.Command, args []string) error {
			permits, per, err := notation.ParseRate(args[1], false)
			if err != nil {
				return err
			}
			rate := rratelimiter.Rate{Permits: permits, Interval: per.Interval}
			checked := rate
			if err := c.complete(&checked, rratelimiter.Rate{}); err != nil {
				return err
			}
			switch {
			case permits < 1:
				return fmt.Errorf("the rate %q: want at least 1 permit", args[1])
			case checked.KeepAlive > 0 && checked.KeepAlive < rate.Interval:
				return fmt.Errorf("--keep-alive is %s: want at least the interval of the rate", c.keepAlive)
			}
			if err := a.open(cmd.Context(), true); err != nil {
				return err
			}
			return c.do(cmd.Context(), a, args[0], rate)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&c.kind, "type", "", "overall or per-client (default unchanged; overall for a new limiter)")
	flags.StringVar(&c.keepAlive, "keep-alive", "",
		"delete the limiter after this time without use; 0 to keep it (default unchanged)")
	flags.BoolVar(&c.forget, "forget", false, "free the taken permits")
	flags.BoolVar(&c.ifAbsent, "if-absent", false, "change nothing if there is a rate (exit code 1)")
	flags.BoolVar(&c.yes, "yes", false, "free taken permits")
	return cmd
}

func (c change) do(ctx context.Context, a *app, name string, rate rratelimiter.Rate) error {
	l := a.limiters().Limiter(name)
	before, err := l.Config(ctx)
	var state *rratelimiter.StateError
	has, corrupt := err == nil, errors.As(err, &state)
	if corrupt && state.Field == "" { // the name has a key of another type
		return a.explain(err)
	}
	if !has && !corrupt && !errors.Is(err, rratelimiter.ErrNotInitialized) {
		return a.explain(err)
	}
	if err := c.complete(&rate, before); err != nil {
		return err
	}
	if c.ifAbsent {
		return c.absent(ctx, a, l, rate)
	}
	forgets := ""
	switch {
	case corrupt:
		forgets = fmt.Sprintf("replace the invalid configuration of %q (%v)", name, err)
	case has && before.Type != rate.Type:
		forgets = fmt.Sprintf("make %q %v and free its taken permits as %v", name, rate.Type, before.Type)
	case has && c.forget:
		forgets = fmt.Sprintf("free the taken permits of %q", name)
	}
	if forgets != "" {
		if err := agreed(c.yes, forgets); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, a, name, rate, has && before.Type == rate.Type); err != nil {
		return err
	}
	if has {
		return a.printRate(name, rate, true, &before)
	}
	return a.printRate(name, rate, true, nil)
}

// apply sets the rate. Each known client of a PER_CLIENT limiter has its own state, so apply sets the rate
// as each of them. Without known clients it creates none.
func (c change) apply(ctx context.Context, a *app, name string, rate rratelimiter.Rate, sameType bool) error {
	var options []rratelimiter.SetRateOption
	if !c.forget {
		options = append(options, rratelimiter.KeepState())
	}
	if rate.Type == rratelimiter.Overall {
		return a.explain(a.limiters().Limiter(name).SetRate(ctx, rate, options...))
	}
	set := false
	if sameType {
		found, err := a.reader.Of(ctx, name, inspect.Search{})
		if err != nil {
			return err
		}
		for _, l := range found.Redisson {
			for _, p := range l.Pairs {
				as, err := clientID(p.Client)
				if err != nil {
					continue // not a client of Redisson
				}
				if err := a.limiters(as...).Limiter(name).SetRate(ctx, rate, options...); err != nil {
					return a.explain(err)
				}
				set = true
			}
		}
	}
	if set {
		return nil
	}
	return a.explain(a.limiters().Limiter(name).SetRate(ctx, rate))
}

// complete sets type and keep-alive of the rate, by flags or as before.
func (c change) complete(rate *rratelimiter.Rate, before rratelimiter.Rate) (err error) {
	rate.Type, rate.KeepAlive = before.Type, before.KeepAlive
	switch strings.ReplaceAll(strings.ToLower(c.kind), "_", "-") {
	case "":
	case "overall":
		rate.Type = rratelimiter.Overall
	case "per-client":
		rate.Type = rratelimiter.PerClient
	default:
		return fmt.Errorf("--type %q: want overall or per-client", c.kind)
	}
	switch c.keepAlive {
	case "":
	case "0":
		rate.KeepAlive = 0
	default:
		if rate.KeepAlive, err = notation.ParseDuration(c.keepAlive); err != nil {
			return fmt.Errorf("--keep-alive: %w", err)
		}
	}
	return nil
}

func (c change) absent(ctx context.Context, a *app, l *rratelimiter.Limiter, rate rratelimiter.Rate) error {
	set, err := l.TrySetRate(ctx, rate)
	if err != nil {
		return a.explain(err)
	}
	if err := a.printRate(l.Name(), rate, set, nil); err != nil || set {
		return err
	}
	return errDenied
}

type setting struct {
	Limiter names.Name `json:"limiter"`
	rateJSON
	Set bool      `json:"set"`
	Was *rateJSON `json:"was,omitempty"`
}

type rateJSON struct {
	Type      string `json:"type"`
	Permits   int64  `json:"permits"`
	Interval  int64  `json:"interval_ms"`
	KeepAlive int64  `json:"keep_alive_ms"`
}

func asRate(r rratelimiter.Rate) rateJSON {
	return rateJSON{r.Type.String(), r.Permits, r.Interval.Milliseconds(), r.KeepAlive.Milliseconds()}
}

// printRate prints the result of set. The rate before is nil if there was none, or if it stays.
func (a *app) printRate(name string, rate rratelimiter.Rate, set bool, before *rratelimiter.Rate) error {
	result := setting{Limiter: names.Name(name), rateJSON: asRate(rate), Set: set}
	text := fmt.Sprintf("%s: %s, new", names.Quote(name), describeRate(rate))
	if !set {
		text = names.Quote(name) + " keeps its rate"
	} else if before != nil {
		was := asRate(*before)
		result.Was = &was
		text = fmt.Sprintf("%s: %s, was %s", names.Quote(name), describeRate(rate), describeRate(*before))
	}
	return a.print(result, func(w *strings.Builder) { fmt.Fprintln(w, text) })
}

func describeRate(r rratelimiter.Rate) string {
	text := fmt.Sprintf("%s %v", names.Rate(r), r.Type)
	if r.KeepAlive > 0 {
		text += ", keep-alive " + notation.FormatDuration(r.KeepAlive)
	}
	return text
}

func (a *app) pause() *cobra.Command {
	return &cobra.Command{
		Use:   "pause NAME TIME",
		Short: "Deny everything for a time, in programs whose limiter has a Pause",
		Long: `pause has a limiter of package limit deny everything for a TIME from now on, such as 30s. A longer
pause stays. 0 ends the pause, and a penalty. Programs take part if their limiter NAME has a
limit.Pause; others go on. The longest pause of a program does not bound this command.`,
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
			most := max(1, millis(d))
			l := limit.New(a.limiters(), name, limit.Pause{Most: time.Duration(most) * time.Millisecond},
				limit.Penalty{Denials: 1, Within: time.Millisecond, For: time.Millisecond})
			if err := l.Pause(ctx, d); err != nil {
				return a.explain(err)
			}
			text, rest := "not paused: "+names.Quote(name), time.Duration(0)
			if d > 0 {
				now, err := l.Peek(ctx)
				if err != nil {
					return a.explain(err)
				}
				rest = now[0].RetryAfter
				text = fmt.Sprintf("paused: %s, for %s", names.Quote(name), names.About(rest))
				if rest > d+time.Second {
					text += " by a longer pause"
				} else {
					text += ", in programs whose limiter has a limit.Pause"
				}
			}
			result := pauseResult{names.Name(name), rest.Milliseconds()}
			return a.print(result, func(w *strings.Builder) { fmt.Fprintln(w, text) })
		},
	}
}

type pauseResult struct {
	Limiter names.Name `json:"limiter"`
	Rest    int64      `json:"paused_ms"`
}
