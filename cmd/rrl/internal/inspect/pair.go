package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/inside"
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

// Place is what one request holds.
type Place = policy.Place

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
			shortText(*p.Value)))
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
			p.Wrong = append(p.Wrong, fmt.Sprintf("%q holds the member %q, which is no grant", p.PermitsKey, shortText(g.Member)))
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

// Totals has the sums of a pair's grants and its value, at one moment.
type Totals struct {
	Value       *string
	Count       int64  // of the members
	First, Last string // of them
	Newest      int64  // Unix milliseconds, 0 for no grant
	Permits     int64  // of all grants, expired ones included; value plus Permits is the rate
	Complete    bool   // all grants were counted at one moment

	Peak, PeakEnd int64 // the most permits within one interval, and the time at its end

	NotGrants int64 // members that are too short
	WrongType bool
}

// FreePermits returns the value as a number. It returns false if the value is none.
func (t *Totals) FreePermits() (int64, bool) { return permitsOf(t.Value) }

// tries bounds the attempts to read a limiter that changes meanwhile.
const tries = 5

// Totals counts the grants of a pair. If programs take permits meanwhile, it tries again; Complete is
// false if all attempts met changes. It returns nil if the configuration has changed since the search.
func (r *Reader) Totals(ctx context.Context, l *Redisson, p *Pair, pages int) (*Totals, error) {
	var totals *Totals
	for range tries {
		before, err := r.fingerprint(ctx, l, p)
		if err != nil || before == nil {
			return nil, err
		}
		if totals, err = r.addUp(ctx, l.Config, p, before, pages); err != nil || before.WrongType {
			return totals, err
		}
		after, err := r.fingerprint(ctx, l, p)
		if err != nil || after == nil {
			return nil, err
		}
		if before.sameFingerprint(after) {
			return totals, nil
		}
		totals.Complete = false
	}
	return totals, nil
}

// fingerprint reads the values of a pair that change with every change of it, which are the first ones
// of its Totals. It returns nil if the configuration has changed.
func (r *Reader) fingerprint(ctx context.Context, l *Redisson, p *Pair) (*Totals, error) {
	b := r.Redis.B
	replies, err := r.ask(ctx, rueidis.Commands{
		r.value(p.ValueKey), b().Zcard().Key(p.PermitsKey).Build(),
		b().Zrange().Key(p.PermitsKey).Min("0").Max("0").Withscores().Build(),
		b().Zrange().Key(p.PermitsKey).Min("-1").Max("-1").Withscores().Build(),
		b().Exists().Key(p.ValueKey).Build(), b().Hmget().Key(l.Name).Field(inside.RateFields...).Build(),
	})
	if err != nil {
		return nil, err
	}
	if raw, _ := optionalTexts(replies[5]); !slices.EqualFunc(raw, l.raw, sameText) {
		return nil, nil
	}
	t := &Totals{Count: number(replies[1]), WrongType: wrongType(replies[1].Error())}
	var other bool
	t.Value, other = valueOf(replies[0], number(replies[4]) == 1)
	t.WrongType = t.WrongType || other
	if first, err := decodeGrants(replies[2]); err == nil && len(first) == 1 {
		t.First = first[0].Member
	}
	if last, err := decodeGrants(replies[3]); err == nil && len(last) == 1 {
		t.Last, t.Newest = last[0].Member, last[0].At
	}
	return t, nil
}

func (t *Totals) sameFingerprint(as *Totals) bool {
	return sameText(t.Value, as.Value) && t.Count == as.Count && t.First == as.First && t.Last == as.Last
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// addUp adds the sums of the grants to a fingerprint.
func (r *Reader) addUp(ctx context.Context, config rratelimiter.Rate, p *Pair, fingerprint *Totals,
	pages int) (*Totals, error) {
	sum := *fingerprint
	if fingerprint.WrongType {
		return &sum, nil
	}
	interval := config.Interval.Milliseconds()
	type dated struct{ at, permits int64 }
	var window []dated // the grants within an interval before the last one
	var within int64
	all, err := r.grants(ctx, p.PermitsKey, 0, fingerprint.Count-1, pages, func(g Grant) {
		if g.Permits < 0 {
			sum.NotGrants++
			return
		}
		sum.Permits += g.Permits
		window, within = append(window, dated{g.At, g.Permits}), within+g.Permits
		for len(window) > 0 && window[0].at <= g.At-interval {
			within -= window[0].permits
			window = window[1:]
		}
		if within > sum.Peak {
			sum.Peak, sum.PeakEnd = within, g.At
		}
	})
	sum.Complete = all
	return &sum, err
}

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
