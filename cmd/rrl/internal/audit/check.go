package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
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
	c.windows(l, p, totals)
	if ahead := totals.Newest - c.Now().UnixMilli(); p.Grants > 0 && ahead > 2000 {
		c.add(Problem, KindClock, l.Name, p.PermitsKey,
			fmt.Sprintf("the newest grant is dated %s in the future: synchronise the clocks of the hosts",
				names.About(time.Duration(ahead)*time.Millisecond)))
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

// maxCounted is the most grants that the library counts.
const maxCounted = 8192

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
	if totals.Count > maxCounted {
		c.add(Problem, KindValue, l.Name, p.ValueKey, fmt.Sprintf("%s; a count of its permits takes at most %d grants, "+
			"and it has %d", text, maxCounted, totals.Count))
		return
	}
	c.add(Problem, KindValue, l.Name, p.ValueKey, text).repairs("count the permits, as the Go library does",
		c.only(l, p), []string{l.Name, p.ValueKey, p.PermitsKey}, nil)
}

func (c *checker) windows(l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals) {
	if totals.Peak > l.Config.Permits {
		c.add(Problem, KindWindow, l.Name, p.PermitsKey,
			fmt.Sprintf("%d permits were granted within one interval, up to %s, at a rate of %d: "+
				"the rate was lowered, permits were released, or a program granted too many",
				totals.Peak, time.UnixMilli(totals.PeakEnd).UTC().Format(time.RFC3339), l.Config.Permits))
	}
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
