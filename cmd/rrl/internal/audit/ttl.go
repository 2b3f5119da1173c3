package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
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
			f := c.add(Problem, KindExpiry, l.Name, state.key,
				fmt.Sprintf("%q never expires, and its limiter %s: it would remain", state.key, after))
			life := l.TTL
			if life < 0 { // the repair of the limiter comes first
				life = l.Config.KeepAlive.Milliseconds()
			}
			f.repairs("let it expire with the limiter", c.only(l, p), []string{l.Name, state.key},
				expire(state.key, life+slack(l, state.key)))
		case l.TTL == inspect.Forever && l.Config.KeepAlive == 0 && state.ttl >= 0:
			f := c.add(Problem, KindExpiry, l.Name, state.key,
				fmt.Sprintf("%q expires in %s, and its limiter never does: taken permits would be freed",
					state.key, names.About(time.Duration(state.ttl)*time.Millisecond)))
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
		longest := inspect.Millis(max(p.ValueTTL, p.PermitsTTL))
		c.add(Note, KindOrphan, name, p.ValueKey, fmt.Sprintf("%s; the keys expire in %s", reason, names.About(longest)))
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
		f.repairs(fmt.Sprintf("let it expire in %s, by when nothing is taken any more", names.About(inspect.Millis(ttl))),
			&inspect.Found{Policies: []*inspect.Policy{p}}, []string{p.Key}, expire(p.Key, ttl))
	}
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
