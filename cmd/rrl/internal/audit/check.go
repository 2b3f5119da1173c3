// Package audit reports problems of limiters and repairs those with one correct repair. An expiry is
// repaired by PEXPIRE or PERSIST, state that no limiter uses by UNLINK, and drift by the library's count.
package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Severity is the severity of a finding.
type Severity string

// Severities.
const (
	Problem Severity = "problem" // the limiter does not do what it should
	Note    Severity = "note"    // the limiter works
)

// Finding is one problem.
type Finding struct {
	Kind     string     `json:"kind"`
	Severity Severity   `json:"severity"`
	Limiter  names.Name `json:"limiter"`
	Key      names.Name `json:"key"`
	Text     string     `json:"text"`
	Repair   string     `json:"repair,omitempty"` // what the repair does, "" if there is none
	Result   string     `json:"result,omitempty"` // the result of the repair

	Corrupt bool    `json:"-"` // calls of the libraries fail
	repair  *repair // nil if there is none
}

// Kinds of findings.
const (
	KindConfig  = "config"  // the configuration is invalid
	KindValue   = "value"   // the free permits do not match the grants
	KindOrphan  = "orphan"  // state that no limiter uses
	KindIdle    = "idle"    // the pair of a client that has taken nothing for an interval
	KindMember  = "member"  // a member that is not a grant
	KindExpiry  = "expiry"  // state that expires later or earlier than its limiter
	KindName    = "name"    // a name whose keys are in several slots, or shared with another name
	KindWindow  = "window"  // an interval with more permits than the rate
	KindClock   = "clock"   // grants in the future
	KindStrange = "strange" // a key named like a policy's with other content
)

// Values of Finding.Result.
const (
	Repaired = "repaired"
	Failed   = "failed"
	Changed  = "unchanged, since the limiter has changed meanwhile"
)

// Check checks the result of a search. It reads at most the given number of pages of grants per pair.
func Check(ctx context.Context, r *inspect.Reader, found *inspect.Found, pages int) ([]*Finding, error) {
	c := &checker{Reader: r, pages: pages, found: []*Finding{}} // in JSON, none is []
	named := make(map[string]bool)
	for _, l := range found.Redisson {
		named[l.Name] = true
	}
	for _, l := range found.Redisson {
		c.name(l.Name, named)
		if err := c.redisson(ctx, l); err != nil {
			return nil, err
		}
	}
	for _, p := range found.Orphans {
		if err := c.orphan(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, p := range found.Policies {
		c.policy(p)
	}
	return c.found, nil
}

type checker struct {
	*inspect.Reader
	pages int
	found []*Finding
}

// add adds a finding. The caller adds its repair, if it has one.
func (c *checker) add(severity Severity, kind, limiter, key, text string) *Finding {
	f := &Finding{Kind: kind, Severity: severity, Limiter: names.Name(limiter), Key: names.Name(key), Text: text}
	c.found = append(c.found, f)
	return f
}

func (c *checker) name(name string, all map[string]bool) {
	value, permits := names.Pair(name, "")
	if slot := redisx.Slot(name); redisx.Slot(value) != slot || redisx.Slot(permits) != slot {
		c.add(Problem, KindName, name, name, "the braces of this name spread its keys over slots of a cluster: "+
			"use a name without braces, or with one hash tag that is not empty")
	}
	if braced := "{" + name + "}"; !strings.Contains(name, "{") && all[braced] {
		c.add(Problem, KindName, name, value, fmt.Sprintf("the limiters %q and %q have the same state keys and "+
			"take each other's permits: rename one of them", name, braced))
	}
}

func (c *checker) redisson(ctx context.Context, l *inspect.Redisson) error {
	advice := "set the rate again (rrl set)"
	if l.OtherType() {
		advice = "choose another name for the limiter, or delete the key"
	}
	for _, wrong := range l.Wrong {
		c.add(Problem, KindConfig, l.Name, l.Name, wrong+": every call of the libraries fails; "+advice).Corrupt = true
	}
	if !l.Valid() {
		return nil
	}
	keepAlive := l.Config.KeepAlive.Milliseconds()
	if keepAlive > 0 && l.TTL == inspect.Forever {
		after := notation.FormatDuration(l.Config.KeepAlive)
		f := c.add(Problem, KindExpiry, l.Name, l.Name,
			fmt.Sprintf("it has a keep-alive of %s and no expiry, so it stays forever unless it is used", after))
		f.repairs(fmt.Sprintf("expire it in %s, as if it had been used now", after), c.only(l, nil), []string{l.Name},
			expire(l.Name, keepAlive))
	}
	for _, p := range l.Pairs {
		if err := c.pair(ctx, l, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) pair(ctx context.Context, l *inspect.Redisson, p *inspect.Pair) error {
	c.ttls(l, p)
	totals, err := c.Totals(ctx, l, p, c.pages)
	if err != nil || totals == nil {
		return err
	}
	for i, key := range p.OtherTypes {
		f := c.add(Problem, KindConfig, l.Name, key, p.Wrong[i]+": every call of the libraries fails; delete the key")
		f.Corrupt = true
	}
	if len(p.Wrong) == 0 || !totals.WrongType {
		c.value(l, p, totals)
	}
	if totals.NotGrants > 0 {
		c.add(Problem, KindMember, l.Name, p.PermitsKey, fmt.Sprintf("members that are not grants: %d: calls of the "+
			"libraries fail when they expire; delete the key, which frees its permits", totals.NotGrants)).Corrupt = true
	}
	if totals.Peak > l.Config.Permits {
		c.add(Problem, KindWindow, l.Name, p.PermitsKey,
			fmt.Sprintf("%d permits were granted within one interval, up to %s, at a rate of %d: "+
				"the rate was lowered, permits were released, or a program granted too many",
				totals.Peak, time.UnixMilli(totals.PeakEnd).UTC().Format(time.RFC3339), l.Config.Permits))
	}
	if ahead := totals.Newest - c.Now().UnixMilli(); p.Grants > 0 && ahead > 2000 {
		c.add(Problem, KindClock, l.Name, p.PermitsKey,
			fmt.Sprintf("the newest grant is dated %s in the future: synchronise the clocks of the hosts",
				names.AboutMillis(ahead)))
	}
	return c.idle(ctx, l, p, totals)
}

// only returns the subject of a repair: a limiter with one pair, or none.
func (c *checker) only(l *inspect.Redisson, p *inspect.Pair) *inspect.Found {
	one := *l
	if one.Pairs = nil; p != nil {
		one.Pairs = []*inspect.Pair{p}
	}
	return &inspect.Found{Redisson: []*inspect.Redisson{&one}}
}

// value compares the free permits and the grants with the rate.
func (c *checker) value(l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals) {
	if !totals.Complete || !p.Exists() {
		return
	}
	rate := l.Config.Permits
	right := rate - totals.Permits
	value, known := totals.FreePermits()
	excess := value - right
	sum := fmt.Sprintf("%d free and %d in grants, at a rate of %d", value, totals.Permits, rate)
	var text string
	switch {
	case totals.Value == nil:
		text = fmt.Sprintf("the value is missing beside %d permits in grants: Redisson would grant the whole rate of %d",
			totals.Permits, rate)
	case !known:
		c.add(Problem, KindValue, l.Name, p.ValueKey, fmt.Sprintf("the value %q is not a number: every call of the "+
			"libraries fails; delete the keys of the limiter's state, which frees its permits", *totals.Value)).Corrupt = true
		return
	case excess == 0:
		return
	case excess < 0:
		text = fmt.Sprintf("%d permits are lost: %s", -excess, sum)
	case value > rate:
		text = fmt.Sprintf("%d permits too many after the rate was lowered: %s", excess, sum)
	default:
		text = fmt.Sprintf("%d permits too many after a release in Java: %s", excess, sum)
	}
	if totals.Count > inside.MostCounted {
		c.add(Problem, KindValue, l.Name, p.ValueKey, fmt.Sprintf("%s; a count of its permits takes at most %d grants, "+
			"and it has %d", text, inside.MostCounted, totals.Count))
		return
	}
	c.add(Problem, KindValue, l.Name, p.ValueKey, text).repairs("count the permits, as the Go library does",
		c.only(l, p), []string{l.Name, p.ValueKey, p.PermitsKey}, nil)
}

// idle checks whether a client has ended: its pair stays if the limiter does not expire. Its permits have
// returned by the clock of the server too, since that of this host may be wrong.
func (c *checker) idle(ctx context.Context, l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals) error {
	if l.Config.Type != rratelimiter.PerClient || !p.Exists() || p.ValueTTL >= 0 || p.PermitsTTL >= 0 ||
		totals.NotGrants > 0 || !totals.Complete || totals.Newest > c.Now().Add(-l.Config.Interval).UnixMilli() {
		return nil
	}
	f := c.add(Note, KindIdle, l.Name, p.ValueKey, fmt.Sprintf("client %s has taken nothing and its keys have no "+
		"expiry: if the client is gone, they stay forever", p.Client))
	now, err := c.ServerTime(ctx)
	if err == nil && totals.Newest <= now.Add(-l.Config.Interval).UnixMilli() {
		f.repairs("delete the keys, which hold no permits", c.only(l, p), []string{l.Name, p.ValueKey, p.PermitsKey},
			unlink(p.ValueKey, p.PermitsKey))
	}
	return err
}

// ttls compares the TTLs of a pair with that of its configuration.
func (c *checker) ttls(l *inspect.Redisson, p *inspect.Pair) {
	for _, state := range []struct {
		key string
		ttl int64
	}{{p.ValueKey, p.ValueTTL}, {p.PermitsKey, p.PermitsTTL}} {
		switch {
		case state.ttl == inspect.NoKey:
		case state.ttl == inspect.Forever && (l.TTL >= 0 || l.Config.KeepAlive > 0):
			after := "is to, by its keep-alive"
			if l.TTL >= 0 {
				after = "does in " + names.AboutMillis(l.TTL)
			}
			f := c.add(Problem, KindExpiry, l.Name, state.key,
				fmt.Sprintf("%q never expires, and its limiter %s: it would remain", state.key, after))
			life := l.TTL
			if life < 0 { // the repair of the limiter comes first
				life = l.Config.KeepAlive.Milliseconds()
			}
			f.repairs("let it expire with the limiter", c.only(l, p), []string{l.Name, state.key},
				expire(state.key, life+outlivesBy(l, state.key)))
		case l.TTL == inspect.Forever && l.Config.KeepAlive == 0 && state.ttl >= 0:
			f := c.add(Problem, KindExpiry, l.Name, state.key,
				fmt.Sprintf("%q expires in %s, and its limiter never does: taken permits would be freed",
					state.key, names.AboutMillis(state.ttl)))
			f.repairs("take its expiry off", c.only(l, p), []string{l.Name, state.key}, persist(state.key))
		}
	}
}

func (c *checker) orphan(ctx context.Context, p *inspect.Pair) error {
	claim, err := c.Claim(ctx, p)
	if err != nil || claim.InUse || !p.Exists() {
		return err
	}
	parsed, _ := names.Parse(p.ValueKey)
	name, reason := parsed.Name(), "no limiter has this name"
	if l := claim.Other; l != nil {
		name = l.Name
		reason = fmt.Sprintf("%q is %v by now, and counts by other keys", l.Name, l.Config.Type)
	}
	switch {
	case !claim.Sure:
		c.add(Note, KindOrphan, name, p.ValueKey, reason+"; the key may not belong to a limiter, so it stays")
	case p.ValueTTL != inspect.Forever && p.PermitsTTL != inspect.Forever:
		longest := names.AboutMillis(max(p.ValueTTL, p.PermitsTTL))
		c.add(Note, KindOrphan, name, p.ValueKey, fmt.Sprintf("%s; the keys expire in %s", reason, longest))
	default:
		f := c.add(Problem, KindOrphan, name, p.ValueKey, reason+", and the keys never expire")
		f.repairs("delete the keys", &inspect.Found{Orphans: []*inspect.Pair{p}},
			append([]string{p.ValueKey, p.PermitsKey}, parsed.Names()...), unlink(p.ValueKey, p.PermitsKey))
	}
	return nil
}

func (c *checker) policy(p *inspect.Policy) {
	if p.TTL == inspect.NoKey {
		return
	}
	if len(p.Wrong) > 0 {
		c.add(Note, KindStrange, p.Name, p.Key,
			p.Wrong[0]+": if it belongs to a limiter, its calls fail: delete the key").Corrupt = true
		return
	}
	if p.TTL != inspect.Forever {
		return
	}
	f := c.add(Problem, KindExpiry, p.Name, p.Key,
		"it has no expiry, but each key of package limit has one: it was removed, for example by a restore")
	// All permits of a window return within its interval. The time of others is not in their key.
	isWindow := p.Stored.Refill == policy.ByAge || p.Stored.Refill == policy.Together
	if isWindow && p.Stored.Interval > 0 {
		// In milliseconds, since twice the longest interval is more than a Duration holds.
		ttl := max(2*p.Stored.Interval.Milliseconds(), p.Ends)
		f.repairs(fmt.Sprintf("let it expire in %s, by when nothing is taken any more", names.AboutMillis(ttl)),
			&inspect.Found{Policies: []*inspect.Policy{p}}, []string{p.Key}, expire(p.Key, ttl))
	}
}

// outlivesBy returns by how much the pair of a client outlives its limiter, as in the Go library: an interval
// and a day.
func outlivesBy(l *inspect.Redisson, key string) int64 {
	parsed, _ := names.Parse(key)
	if l.Config.Type != rratelimiter.PerClient || parsed.Client == "" {
		return 1
	}
	return 1 + l.Config.Interval.Milliseconds() + (24 * time.Hour).Milliseconds()
}
