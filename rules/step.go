package rules

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/door"
)

// step is limits of a request that are decided at once.
type step struct {
	settings settings
	rules    []string
	cost     int64
	err      error        // why it cannot be told what to ask
	limiter  door.Limiter // what to ask, described; nil where it is to be made of the group
	group    *group       // what the limiter consists of; nil where it cannot be joined with others
}

// steps is what decides a request of HTTP, nil for nothing.
func (s *snapshot) steps(o *opener, r *http.Request) []step {
	by := search{request: &overHTTP{Request: r, address: &s.address}, all: s.all}
	path := cleanPath(r.URL.EscapedPath())
	s.http.find(&by, path)
	steps := s.append(nil, o, &by, path, by.found)
	if r.URL.RawPath == "" {
		return joinable(steps, o)
	}
	// Routers differ on a path with escaped slashes or dots. Rules that match either reading of it decide.
	other := cleanPath((&url.URL{Path: r.URL.Path}).EscapedPath())
	if other == path {
		return joinable(steps, o)
	}
	before := by.found
	by.found = nil
	s.http.find(&by, other)
	for _, e := range by.found {
		if !hasRule(before, e.rule) {
			steps = s.append(steps, o, &by, other, []entry{e})
		}
	}
	return joinable(steps, o)
}

func hasRule(entries []entry, rule int) bool {
	for _, e := range entries {
		if e.rule == rule {
			return true
		}
	}
	return false
}

// append adds a step for each rule, or several where its limits do not share a slot.
func (s *snapshot) append(steps []step, o *opener, by *search, path string, found []entry) []step {
	for _, e := range found {
		rule := s.rules[e.rule]
		if rule.skip.skips(by.request, path) {
			continue
		}
		steps = rule.append(steps, o, by.request, path, e.condition)
	}
	return steps
}

func (r *rule) append(steps []step, o *opener, request asked, path string, c *condition) []step {
	s := step{settings: r.settings, rules: []string{r.name}, cost: 1}
	if r.cost != nil {
		s.cost = r.cost.of(request)
	}
	l, key := r.limits, ""
	if r.key != nil && (!l.refuse || len(r.overrides) > 0) {
		var err error
		if key, err = keyOf(r.key, request, path, c); err == nil && key == "" {
			err = errNoKey
		}
		if err != nil && !l.refuse {
			s.err = err
			return append(steps, s)
		}
		if own := r.overrides[key]; own != nil {
			l = own
		}
	}
	switch {
	case l.pass:
		return steps
	case l.refuse:
		s.settings = refusing(r.settings)
		s.limiter = l.described(o.door).of(refusal(r.prefix))
		s.cost = 1
		return append([]step{s}, steps...) // before anything is taken
	}
	for i, g := range o.open(r, l, key).groups {
		if s.limiter, s.group = g.told, &g.group; i > 0 {
			s.rules = nil // told once
		}
		steps = append(steps, s)
	}
	return steps
}

// refusal is a limiter that never has a permit. It has the name of a rule.
type refusal string

func (refusal) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{}, nil
}

func (r refusal) Name() string { return string(r) }

// joinable joins neighbours that can decide at once.
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
			kept[i].limiter = o.door.describe(kept[i].group.policies)(kept[i].group.limiter())
		}
	}
	return kept
}

// join takes another step into this one, if both can decide at once, and says whether it did.
func (s *step) join(other *step, o *opener) bool {
	if s.group == nil || other.group == nil || s.settings != other.settings || s.cost != other.cost || s.cost < 0 {
		return false
	}
	joined := s.group.with(other.group, o.cluster)
	if joined == nil {
		return false
	}
	s.group, s.limiter, s.rules = joined, nil, append(slices.Clip(s.rules), other.rules...)
	return true
}

// nameOf is the name of the limiter of a rule and a key.
func (r *rule) nameOf(key string) string {
	if r.key == nil {
		return r.prefix
	}
	return door.Name(r.prefix, key)
}
