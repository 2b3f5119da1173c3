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
	set := new(Set)
	set.current.Store(s)
	return set, nil
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

// file returns the current file.
func (s *Set) file() *snapshot {
	if file := s.current.Load(); file != nil {
		return file
	}
	return noRules
}

var noRules = new(snapshot)

// Len returns the number of rules.
func (s *Set) Len() int { return len(s.file().rules) }

// SetRates sets the rates that the file states for Redisson limiters, so that Java programs use
// them too. A limiter that has the rate already is not changed. A limiter with another rate keeps
// the permits taken ([rratelimiter.KeepState]). A limiter without a rate gets it, as it does from the
// first request. With [Rates], Watch does this on each change.
//
// If one limiter fails, the others are set nevertheless. All errors are returned together.
func (s *Set) SetRates(ctx context.Context, client *rratelimiter.Client) error {
	var failed []error
	for _, stated := range s.file().rates {
		if err := setRate(ctx, client.Limiter(stated.limiter), stated.rate); err != nil {
			failed = append(failed, fmt.Errorf("rules: the rate of %q, of the rule %q: %w", stated.limiter, stated.rule, err))
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
