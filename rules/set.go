package rules

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Set is the rules of a file. A Set of [Watch] changes with its file; Sets of [Parse] and [Load]
// never change. The zero Set has no rules. A Set is safe for concurrent use.
type Set struct {
	current atomic.Pointer[snapshot]
}

// Parse parses rules in YAML or JSON. The name appears in errors. Every error is one or several
// [*Error], which errors.As finds.
func Parse(name string, data []byte) (*Set, error) {
	s, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	return newSet(s), nil
}

// Load loads the rules of a file of at most 16 MiB. Errors are like those of [Parse], and wrap
// those of the file system, for instance [io/fs.ErrNotExist].
func Load(path string) (*Set, error) {
	sources, problem := rulefile.Read(path, nil)
	if problem != nil {
		return nil, (*Error)(problem)
	}
	return Parse(path, sources[0].Data)
}

func newSet(s *snapshot) *Set {
	set := new(Set)
	set.current.Store(s)
	return set
}

// file returns the current file.
func (s *Set) file() *snapshot {
	if file := s.current.Load(); file != nil {
		return file
	}
	return nothing
}

var nothing = new(snapshot)

// Len returns the number of rules.
func (s *Set) Len() int { return len(s.file().rules) }

// stated returns the Redisson limiters whose rate the rule states.
func (r *rule) stated() []redisson {
	var all []redisson
	add := func(l *limits) {
		for _, limiter := range l.redisson {
			if limiter.rate != nil {
				all = append(all, limiter)
			}
		}
	}
	add(r.limits)
	for _, l := range r.overrides {
		add(l)
	}
	return all
}

// SetRates sets the rates that the file states for Redisson limiters, so that Java programs use
// them too. A limiter that has the rate already is not changed. A limiter with another rate keeps
// the permits taken ([rratelimiter.KeepState]). A limiter without a rate gets it. With [Rates],
// Watch does this on each change.
//
// If one limiter fails, the others are set nevertheless. All errors are returned together.
func (s *Set) SetRates(ctx context.Context, client *rratelimiter.Client) error {
	return s.file().setRates(ctx, ctx, client)
}

// setRates sets the rates until ctx ends. Its calls to Redis have the context calls.
func (s *snapshot) setRates(ctx, calls context.Context, client *rratelimiter.Client) error {
	var failed []error
	done := make(map[string]bool)
	for _, r := range s.rules {
		for _, stated := range r.stated() {
			if done[stated.name] {
				continue
			}
			done[stated.name] = true
			err := ctx.Err()
			if err == nil {
				err = setRate(calls, client.Limiter(stated.name), *stated.rate)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("rules: the rate of %q, of the rule %q: %w", stated.name, r.name, err))
			}
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
