package inspect

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// Pair has the state keys (value and permits) of all clients together, or of one client of a PER_CLIENT
// limiter.
type Pair struct {
	Client     string   `json:"client,omitempty"`
	Value      *string  `json:"value"` // nil if missing
	Free       int64    `json:"free"`
	Taken      int64    `json:"taken"` // above the rate after it was lowered
	Grants     int64    `json:"grants"`
	Left       int64    `json:"grants_left"` // of these, expired ones that are not yet removed
	ValueTTL   int64    `json:"value_ttl_ms"`
	PermitsTTL int64    `json:"permits_ttl_ms"`
	Newest     int64    `json:"newest_grant_ms,omitempty"`
	Returns    []Return `json:"returns,omitempty"`
	Partial    bool     `json:"partial,omitempty"` // too many grants to count
	Wrong      []string `json:"wrong,omitempty"`

	ValueKey, PermitsKey string   `json:"-"`
	OtherTypes           []string `json:"-"` // the keys of another type, with the first problems of Wrong
}

// Return has the permits that return up to a time, without those of earlier Returns.
type Return = policy.Return

// Exists reports whether one of the keys exists.
func (p *Pair) Exists() bool { return p.ValueTTL != NoKey || p.PermitsTTL != NoKey }

const commandsOfPair = 6

// want is a pair to read: of a limiter, or of one of its clients.
type want struct {
	*Redisson
	client string
}

// pairs reads pairs and adds them to their limiters, in two round trips, or more if many grants have
// expired. It reads at most the given number of pages of grants per pair.
func (r *Reader) pairs(ctx context.Context, wants []want, pages int) error {
	b, now := r.Redis.B, r.Now().UnixMilli()
	var commands rueidis.Commands
	all := make([]*Pair, len(wants))
	for i, w := range wants {
		p := &Pair{Client: w.client}
		p.ValueKey, p.PermitsKey = names.Pair(w.Name, w.client)
		all[i] = p
		commands = append(commands,
			r.value(p.ValueKey), b().Pttl().Key(p.ValueKey).Build(), b().Pttl().Key(p.PermitsKey).Build(),
			b().Zcard().Key(p.PermitsKey).Build(),
			b().Zcount().Key(p.PermitsKey).Min("-inf").Max(strconv.FormatInt(now-w.Config.Interval.Milliseconds(), 10)).Build(),
			b().Zrange().Key(p.PermitsKey).Min("-1").Max("-1").Withscores().Build())
	}
	results, err := r.ask(ctx, commands)
	if err != nil {
		return err
	}
	for i, w := range wants {
		p, replies := all[i], results[i*commandsOfPair:]
		p.ValueTTL, p.PermitsTTL = number(replies[1]), number(replies[2])
		p.Grants, p.Left = number(replies[3]), number(replies[4])
		var other bool
		if p.Value, other = valueOf(replies[0], p.ValueTTL != NoKey); other {
			p.otherType(p.ValueKey, "a string")
		}
		if wrongType(replies[3].Error()) {
			p.otherType(p.PermitsKey, "a sorted set")
		}
		if found, err := decodeGrants(replies[5]); err == nil && len(found) > 0 {
			p.Newest = found[0].At
		}
		if err := r.count(ctx, w.Config.Permits, p, pages); err != nil {
			return err
		}
		w.Pairs = append(w.Pairs, p)
	}
	return nil
}

func (p *Pair) otherType(key, want string) {
	p.OtherTypes = append(p.OtherTypes, key)
	p.Wrong = append(p.Wrong, fmt.Sprintf("%q is of another type, want %s", key, want))
}

// count computes the free permits of a rate, as the libraries do.
func (r *Reader) count(ctx context.Context, rate int64, p *Pair, pages int) error {
	value, known := permitsOf(p.Value)
	if p.Value != nil && !known {
		p.Wrong = append(p.Wrong, fmt.Sprintf("%q holds %q, want a whole number of at most 17 characters", p.ValueKey,
			short(*p.Value)))
	}
	if p.Grants == p.Left { // all grants have expired
		p.Free = rate
		return nil
	}
	first, last := int64(0), p.Left-1
	if !known {
		first, last = p.Left, p.Grants-1
	}
	var sum int64
	strange := false // only the first such member is reported
	all, err := r.grants(ctx, p.PermitsKey, first, last, pages, func(g Grant) {
		if g.Permits >= 0 {
			sum += g.Permits
		} else if !strange {
			strange = true
			p.Wrong = append(p.Wrong, fmt.Sprintf("%q holds the member %q, which is no grant", p.PermitsKey, short(g.Member)))
		}
	})
	if err != nil {
		return err
	}
	p.Partial = !all
	free := value + sum
	if !known {
		free = rate - sum
	}
	p.Free, p.Taken = max(0, min(rate, free)), max(0, rate-free)
	return nil
}

// permitsOf parses a value as strictly as the libraries do.
func permitsOf(value *string) (int64, bool) {
	if value == nil || len(*value) >= 18 {
		return 0, false
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == *value
}

// Timeline reads when the permits of a pair return, in the given number of steps per interval.
func (r *Reader) Timeline(ctx context.Context, config rratelimiter.Rate, p *Pair, steps, pages int) error {
	now, interval := r.Now().UnixMilli(), config.Interval.Milliseconds()
	step := max(1, (interval+int64(steps)-1)/int64(steps))
	all, err := r.grants(ctx, p.PermitsKey, p.Left, p.Grants-1, pages, func(g Grant) {
		after := g.At + interval - now
		if g.Permits <= 0 || after <= 0 {
			return
		}
		last := len(p.Returns) - 1
		if last < 0 || (after-1)/step != (p.Returns[last].AfterMS-1)/step {
			p.Returns = append(p.Returns, Return{AfterMS: after})
			last++
		}
		p.Returns[last].AfterMS = after
		p.Returns[last].Permits += g.Permits
	})
	p.Partial = p.Partial || !all
	return err
}
