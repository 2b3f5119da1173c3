package inspect

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

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
		b().Exists().Key(p.ValueKey).Build(), b().Hmget().Key(l.Name).Field(fields...).Build(),
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
