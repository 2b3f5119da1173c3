package inspect

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Claim reports the owner of a pair found without a limiter.
type Claim struct {
	InUse bool      // the limiter is new, was skipped by the search, or is invalid
	Other *Redisson // the limiter with its name, which uses other keys
	Sure  bool      // it can only belong to a limiter
}

// Claim reads the TTLs of a pair found without a limiter, and its owner.
func (r *Reader) Claim(ctx context.Context, p *Pair) (c Claim, err error) {
	parsed, _ := names.Parse(p.ValueKey)
	limiters, err := r.hashes(ctx, parsed.Names(), true)
	if err != nil {
		return c, err
	}
	for _, l := range limiters {
		switch {
		case l == nil:
		case l.mayCount(p.Client):
			return Claim{InUse: true}, nil
		default:
			c.Other = l
		}
	}
	b := r.Redis.B
	replies, err := r.ask(ctx, rueidis.Commands{
		b().Pttl().Key(p.ValueKey).Build(), b().Pttl().Key(p.PermitsKey).Build(), r.value(p.ValueKey),
		b().Zrange().Key(p.PermitsKey).Min("0").Max(strconv.Itoa(page - 1)).Withscores().Build(),
	})
	if err != nil {
		return c, err
	}
	p.ValueTTL, p.PermitsTTL = number(replies[0]), number(replies[1])
	var other bool
	if p.Value, other = valueOf(replies[2], p.ValueTTL != NoKey); other || wrongType(replies[3].Error()) {
		return c, nil
	}
	grants, err := decodeGrants(replies[3])
	if err != nil {
		return c, r.Redis.Explain(err)
	}
	for _, g := range grants {
		if !g.credible(r.Now()) {
			return c, nil
		}
	}
	_, known := permitsOf(p.Value)
	c.Sure = (p.Value == nil || known) && (len(grants) > 0 || parsed.Client != "")
	return c, nil
}

// credible reports whether a member can only be a grant: it has the format of one and is dated after the
// first release with limiters.
func (g Grant) credible(now time.Time) bool {
	const first = 1_500_000_000_000 // Redisson has had the limiter since 2018
	return g.Known && g.At > first && g.At < now.AddDate(1, 0, 0).UnixMilli()
}
