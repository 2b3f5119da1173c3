package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

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
				after = "does in " + names.About(time.Duration(l.TTL)*time.Millisecond)
			}
			c.add(Finding{
				Kind: KindExpiry, Severity: Problem, Limiter: names.Name(l.Name), Key: names.Name(state.key),
				Text:   fmt.Sprintf("%q never expires, and its limiter %s: it would remain", state.key, after),
				Repair: "let it expire with the limiter", repair: expireWith(l, state.key),
			})
		case l.TTL == inspect.Forever && l.Config.KeepAlive == 0 && state.ttl >= 0:
			c.add(Finding{
				Kind: KindExpiry, Severity: Problem, Limiter: names.Name(l.Name), Key: names.Name(state.key),
				Text: fmt.Sprintf("%q expires in %s, and its limiter never does: taken permits would be freed",
					state.key, names.About(time.Duration(state.ttl)*time.Millisecond)),
				Repair: "take its expiry off", repair: persist(l, state.key),
			})
		}
	}
}

// orphan checks a pair that no limiter uses.
func (c *checker) orphan(ctx context.Context, p *inspect.Pair) error {
	claim, err := c.Claim(ctx, p)
	if err != nil || claim.InUse || !p.Exists() {
		return err
	}
	parsed, _ := names.Parse(p.ValueKey)
	f := Finding{Kind: KindOrphan, Severity: Problem, Limiter: names.Name(parsed.Name()), Key: names.Name(p.ValueKey)}
	reason, others := "no limiter has this name", ""
	if l := claim.Other; l != nil {
		f.Limiter, others = names.Name(l.Name), l.Raw()[2]
		reason = fmt.Sprintf("%q is %v by now, and counts by other keys", l.Name, l.Config.Type)
	}
	longest := max(p.ValueTTL, p.PermitsTTL)
	switch {
	case !claim.Sure:
		f.Severity = Note
		f.Text = fmt.Sprintf("%s; the key may not belong to a limiter, so it stays", reason)
	case p.ValueTTL != inspect.Forever && p.PermitsTTL != inspect.Forever:
		f.Severity = Note
		f.Text = fmt.Sprintf("%s; the keys expire in %s", reason, names.About(time.Duration(longest)*time.Millisecond))
	default:
		f.Text = fmt.Sprintf("%s, and the keys never expire", reason)
		f.Repair, f.repair = "delete the keys", deleteOrphan(parsed, p, others)
	}
	c.add(f)
	return nil
}

// policy checks the state of a policy of package limit.
func (c *checker) policy(p *inspect.Policy) {
	if p.TTL == inspect.NoKey {
		return
	}
	if len(p.Wrong) > 0 {
		c.add(Finding{
			Kind: KindStrange, Severity: Note, Limiter: names.Name(p.Name), Key: names.Name(p.Key),
			Text: p.Wrong[0] + ": if it belongs to a limiter, its calls fail: delete the key",
		})
		return
	}
	if p.TTL != inspect.Forever {
		return
	}
	f := Finding{
		Kind: KindExpiry, Severity: Problem, Limiter: names.Name(p.Name), Key: names.Name(p.Key),
		Text: "it has no expiry, but each key of package limit has one: it was removed, for example by a restore",
	}
	switch p.Stored.Kind {
	case "window", "aligned", "sliding", "log":
		// In milliseconds, since twice the longest interval is more than a Duration holds.
		ttl := max(2*p.Stored.Interval.Milliseconds(), p.Ends)
		f.Repair = fmt.Sprintf("let it expire in %s, by when nothing is taken any more",
			names.About(inspect.Millis(ttl)))
		f.repair = expire(p.Key, ttl)
	}
	c.add(f)
}

// slack is by how much the pair of a client outlives its limiter, as in the Go library: an interval
// and a day.
func slack(l *inspect.Redisson, key string) int64 {
	parsed, _ := names.Parse(key)
	if l.Config.Type != rratelimiter.PerClient || parsed.Client == "" {
		return 1
	}
	return 1 + l.Config.Interval.Milliseconds() + (24 * time.Hour).Milliseconds()
}
