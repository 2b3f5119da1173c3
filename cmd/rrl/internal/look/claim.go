package look

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// Claim says whose a pair is that was found without a limiter.
type Claim struct {
	InUse bool      // of one that has come since, was left out of the search, or cannot be read
	Other *Redisson // the limiter of its name, which counts by other keys
	Sure  bool      // it can be nothing but a limiter's
}

// Claim reads the lives of a pair that was found without a limiter, and whose it is.
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
	told, err := r.ask(ctx, rueidis.Commands{
		b().Pttl().Key(p.ValueKey).Build(), b().Pttl().Key(p.PermitsKey).Build(), r.value(p.ValueKey),
		b().Zrange().Key(p.PermitsKey).Min("0").Max(strconv.Itoa(page - 1)).Withscores().Build(),
	})
	if err != nil {
		return c, err
	}
	p.ValueTTL, p.PermitsTTL = number(told[0]), number(told[1])
	var other bool
	if p.Value, other = value(told[2], p.ValueTTL != NoKey); other || wrongType(told[3].Error()) {
		return c, nil
	}
	grants, err := decodeGrants(told[3])
	if err != nil {
		return c, r.Redis.Explain(err)
	}
	for _, g := range grants {
		if !g.credible(r.Now()) {
			return c, nil
		}
	}
	_, known := permits(p.Value)
	c.Sure = (p.Value == nil || known) && (len(grants) > 0 || parsed.Client != "")
	return c, nil
}

// credible says whether a member can be nothing but a grant: in one of the layouts, dated since there are such limiters, and not eight
// letters, which the oldest layout could be.
func (g Grant) credible(now time.Time) bool {
	const first = 1_500_000_000_000 // Redisson has had the limiter since 2018
	const text = 0x20202020         // the least number of four printable bytes
	return g.Layout != NoLayout && g.At > first && g.At < now.AddDate(1, 0, 0).UnixMilli() && (g.Layout != FloatLayout || g.Permits < text)
}
