package rules

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// Set is the rules of a file. That of [Watch] changes with its file; those of [Parse] and [Load] never do. The zero Set has no
// rules. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[snapshot]
}

// Parse reads rules from YAML or JSON. The name appears in errors. Every error is an [*Error], or several, for errors.As to
// find.
func Parse(name string, data []byte) (*Set, error) {
	s, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	return newSet(s), nil
}

// Load reads the rules of a file, of 16 MiB at most. Errors are as those of [Parse], and those of the file system are wrapped:
// [io/fs.ErrNotExist] for instance.
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

// file is the file as it is now.
func (s *Set) file() *snapshot {
	if file := s.current.Load(); file != nil {
		return file
	}
	return nothing
}

var nothing = new(snapshot)

// Len is how many rules there are.
func (s *Set) Len() int { return len(s.file().rules) }

// stated is the limiters of Redisson's whose rates a rule states.
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

// SetRates sets the rates that the file states for limiters of Redisson's, so that Java programs follow. A limiter that has the rate
// already is left as it is; one that has another keeps what was taken of it ([rratelimiter.KeepState]); one that has none gets it.
// [Rates] lets Watch do it on each change.
//
// Where a limiter fails the others are set all the same; the errors come together.
func (s *Set) SetRates(ctx context.Context, client *rratelimiter.Client) error {
	return s.file().setRates(ctx, ctx, client)
}

// setRates sets them until ctx ends, by calls that last as long as another context.
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
