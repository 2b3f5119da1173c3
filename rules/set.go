package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
)

// Set is the rules of a file. A Set of [Watch] changes with its file; Sets of [Parse] and [Load]
// never change. The zero Set has no rules. A Set is safe for concurrent use.
type Set ruleset.Set // without its methods, which are for grpcrules

func (s *Set) own() *ruleset.Set { return (*ruleset.Set)(s) }

// Parse parses rules in YAML or JSON. The name appears in errors. An error has a line for each problem,
// at most 20, in the form of compiler errors: rules.yaml:12:7: rules[3].limits[0].rate: and the reason.
func Parse(name string, data []byte) (*Set, error) {
	file, problems := ruleset.Parse(name, data)
	if len(problems) > 0 {
		return nil, rulefile.Join(problems...)
	}
	set := new(Set)
	set.own().Replace(file)
	return set, nil
}

// Load loads the rules of a file of at most 16 MiB. Errors are like those of [Parse], and wrap
// those of the file system, for instance [io/fs.ErrNotExist].
func Load(path string) (*Set, error) {
	sources, problem := rulefile.Read(path, nil)
	if problem != nil {
		return nil, problem
	}
	return Parse(path, sources[0].Data)
}

// Len returns the number of rules.
func (s *Set) Len() int { return len(s.own().File().Names()) }

// Warnings describes what in the rules is valid, but never applies, may let requests pass against their intent,
// or lacks what HTTP requires. Each begins with the line of the file.
func (s *Set) Warnings() []string { return s.own().File().Warnings() }

// SetRates sets the rates that the file states for Redisson limiters, so that Java programs use
// them too. A limiter that has the rate already is not changed. A limiter with another rate keeps
// the permits taken ([rratelimiter.KeepState]). A limiter without a rate gets it, as it does from the
// first request. With [Rates], Watch does this on each change.
//
// If one limiter fails, the others are set nevertheless. All errors are returned together.
func (s *Set) SetRates(ctx context.Context, client *rratelimiter.Client) error {
	var failed []error
	for _, stated := range s.own().File().Rates {
		if err := setRate(ctx, client.Limiter(stated.Limiter), stated.Rate); err != nil {
			failed = append(failed, fmt.Errorf("rules: the rate of %q, of the rule %q: %w", stated.Limiter, stated.Rule, err))
		}
	}
	return errors.Join(failed...)
}

func setRate(ctx context.Context, limiter *rratelimiter.Limiter, rate rratelimiter.Rate) error {
	is, err := limiter.Config(ctx)
	switch {
	case err == nil && is == rate:
		return nil
	case err != nil && !errors.Is(err, rratelimiter.ErrNotInitialized):
		return err
	}
	return limiter.SetRate(ctx, rate, rratelimiter.KeepState())
}

// Matched returns the names of the rules that decide a request, in order, nil if there are none.
// Call it with the context of the request, in its handler or in a callback of an option of
// [Set.Middleware] or of the interceptors of package grpcrules. Only Skip comes before the rules.
func Matched(ctx context.Context) []string { return ruleset.Matched(ctx) }

// Settle sets the final cost of a request for all rules that admitted it. httplimit.Settle and
// grpclimit.Settle do the same, unless another middleware is between the rules and the handler.
func Settle(ctx context.Context, cost int64) error { return gate.SettleByFile(ctx, "rules", cost) }
