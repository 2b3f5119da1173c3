package rules

import (
	"context"
	"net/http"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// step is the limits of a request that are decided together, by one call.
type step struct {
	settings settings
	rules    []string
	key      string // of the first rule
	cost     int64
	err      error         // why there is no limiter
	limiter  guard.Limiter // with its description; nil if it is made from the group later
	group    *group        // the members of the limiter; nil if it cannot be joined
}

// steps returns the steps that decide a request of HTTP, nil for none.
func (s *snapshot) steps(o *opener, r *http.Request) []step {
	path, err := target.ReadURL(r.URL, s.allowSlashes)
	if err != nil && s.looksAtPaths {
		return []step{{settings: refusing(settings{}), cost: 1, err: guard.Invalidf("rules: %v", err)}}
	}
	return s.stepsOf(o, &s.http, &httpRequest{Request: r, address: &s.address}, path)
}

// stepsOf returns the steps of a request. Each reading of its path has its rules, and its keys.
func (s *snapshot) stepsOf(o *opener, rules *matcher, request requestInfo, path target.Path) []step {
	var steps []step
	path.All(func(reading string) bool {
		for _, m := range rules.find(request, reading, s.all) {
			if rule := s.rules[m.rule]; !rule.skip.skips(request, path) {
				steps = rule.append(steps, o, request, reading, m)
			}
		}
		return true
	})
	return joinable(steps, o)
}

// append adds a step, or several if the limits of the rule do not share a slot. A rule has one step
// for each key.
func (r *rule) append(steps []step, o *opener, request requestInfo, path string, m match) []step {
	s := step{settings: r.settings, rules: []string{r.name}, cost: 1, err: m.unknown}
	if s.err != nil {
		return append(steps, s)
	}
	if r.cost != nil {
		s.cost, s.err = r.cost.of(request)
	}
	l := r.limits
	if r.key != nil && (!l.refuse || len(r.overrides) > 0) {
		var err error
		if s.key, err = keyOf(r.key, request, path, m.condition); err == nil && s.key == "" {
			err = errNoKey
		}
		if err != nil && !l.refuse {
			s.err = err
			return append(steps, s)
		}
		if own := r.overrides[s.key]; own != nil {
			l = own
		}
	}
	switch {
	case l.pass || slices.ContainsFunc(steps, func(other step) bool { return other.of(r, s.key) }):
		return steps
	case l.refuse:
		s.settings = refusing(r.settings)
		s.limiter = l.described(o, r).of(refusal(r.prefix))
		s.cost, s.err = 1, nil
		return append([]step{s}, steps...) // before any permits are taken
	case s.err != nil:
		return append(steps, s)
	}
	groups := o.groups(r, l, s.key)
	if len(groups) == 1 {
		s.limiter = l.described(o, r).of(groups[0].limiter())
	}
	for i := range groups {
		if s.group = &groups[i]; i > 0 {
			s.rules = nil // only the first step has the names
		}
		steps = append(steps, s)
	}
	return steps
}

// of reports whether a step belongs to a rule and a key.
func (s *step) of(r *rule, key string) bool {
	return len(s.rules) > 0 && s.rules[0] == r.name && s.key == key && s.err == nil
}

// refusal is a limiter without permits. Its name is that of a rule.
type refusal string

func (refusal) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (r refusal) Name() string { return string(r) }

// joinable joins adjacent steps that can decide atomically.
func joinable(steps []step, o *opener) []step {
	if len(steps) < 2 {
		return steps
	}
	kept := steps[:1]
	for _, s := range steps[1:] {
		if !kept[len(kept)-1].join(&s, o) {
			kept = append(kept, s)
		}
	}
	for i := range kept {
		if kept[i].limiter == nil && kept[i].err == nil {
			kept[i].limiter = o.protocol.describe(kept[i].group.policies)(kept[i].group.limiter())
		}
	}
	return kept
}

// join merges another step into this one if both can decide atomically. It reports whether it did.
func (s *step) join(other *step, o *opener) bool {
	if s.group == nil || other.group == nil || s.settings != other.settings || s.cost != other.cost || s.cost < 0 {
		return false
	}
	joined := s.group.with(other.group, o.cluster)
	if joined == nil {
		return false
	}
	s.group, s.limiter = joined, nil
	for _, name := range other.rules {
		if !slices.Contains(s.rules, name) {
			s.rules = append(slices.Clip(s.rules), name)
		}
	}
	return true
}
