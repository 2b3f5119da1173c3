package inspect

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/redis/rueidis"
)

// Ledger has the sums of a pair's grants and its value, at one moment.
type Ledger struct {
	Value       *string
	Count       int64  // of the members
	First, Last string // of them
	Newest      int64  // Unix milliseconds, 0 for no grant
	Permits     int64  // of all grants, expired ones included; value plus Permits is the rate
	Whole       bool   // all grants were counted at one moment

	MostIn, MostAt int64 // the most permits within one interval, and the time at its end

	Old            []Grant // in the format before 3.17, at most a page
	OldCount       int64
	Strange        int64 // members that are not grants
	StrangeMembers []string
	TypesWrong     bool
}

// Number returns the value as a number, and whether it is one.
func (l *Ledger) Number() (int64, bool) { return permits(l.Value) }

// Rewritten returns the member in the format since 3.17.1.
func (g Grant) Rewritten() string {
	const count, long = 4, 8
	random := g.Member[:len(g.Member)-count]
	if g.Layout == LongLayout {
		random = random[long:]
	}
	random = random[:min(len(random), 255)]
	return string(binary.LittleEndian.AppendUint32(append([]byte{byte(len(random))}, random...), uint32(g.Permits)))
}

// Resized returns the member with another number of permits.
func (g Grant) Resized(permits int64) string {
	const count = 4
	return string(binary.LittleEndian.AppendUint32([]byte(g.Member[:len(g.Member)-count]), uint32(permits)))
}

// tries bounds the attempts to read a limiter that changes meanwhile.
const tries = 5

// Ledger counts the grants of a pair. If programs take permits meanwhile, it tries again; Whole is false
// if all attempts met changes. It returns nil if the configuration has changed since the search.
func (r *Reader) Ledger(ctx context.Context, l *Redisson, p *Pair, pages int) (*Ledger, error) {
	var ledger *Ledger
	for range tries {
		before, err := r.mark(ctx, l, p)
		if err != nil || before == nil {
			return nil, err
		}
		if ledger, err = r.addUp(ctx, l.Config, p, before, pages); err != nil || before.TypesWrong {
			return ledger, err
		}
		after, err := r.mark(ctx, l, p)
		if err != nil || after == nil {
			return nil, err
		}
		if before.same(after) {
			return ledger, nil
		}
		ledger.Whole = false
	}
	return ledger, nil
}

// mark reads values that change with every change of a pair. It returns nil if the configuration has
// changed.
func (r *Reader) mark(ctx context.Context, l *Redisson, p *Pair) (*Ledger, error) {
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
	if raw, _ := optionalTexts(replies[5]); !slices.Equal((&Redisson{raw: raw}).Raw(), l.Raw()) {
		return nil, nil
	}
	m := &Ledger{Count: number(replies[1]), TypesWrong: wrongType(replies[1].Error())}
	var other bool
	m.Value, other = value(replies[0], number(replies[4]) == 1)
	m.TypesWrong = m.TypesWrong || other
	if first, err := decodeGrants(replies[2]); err == nil && len(first) == 1 {
		m.First = first[0].Member
	}
	if last, err := decodeGrants(replies[3]); err == nil && len(last) == 1 {
		m.Last, m.Newest = last[0].Member, last[0].At
	}
	return m, nil
}

func (l *Ledger) same(as *Ledger) bool {
	if (l.Value == nil) != (as.Value == nil) || l.Value != nil && *l.Value != *as.Value {
		return false
	}
	return l.Count == as.Count && l.First == as.First && l.Last == as.Last
}

// addUp adds up the grants.
func (r *Reader) addUp(ctx context.Context, config Config, p *Pair, mark *Ledger, pages int) (*Ledger, error) {
	sum := *mark
	if mark.TypesWrong {
		return &sum, nil
	}
	interval := config.Interval.Milliseconds()
	type dated struct{ at, permits int64 }
	var window []dated // the grants within an interval before the last one
	var within int64
	all, err := r.grants(ctx, p.PermitsKey, 0, mark.Count-1, pages, func(g Grant) {
		if g.Permits < 0 {
			sum.Strange++
			if len(sum.StrangeMembers) < page {
				sum.StrangeMembers = append(sum.StrangeMembers, g.Member)
			}
			return
		}
		if g.Layout == FloatLayout || g.Layout == LongLayout {
			sum.OldCount++
			if len(sum.Old) < page {
				sum.Old = append(sum.Old, g)
			}
		}
		sum.Permits += g.Permits
		window, within = append(window, dated{g.At, g.Permits}), within+g.Permits
		for len(window) > 0 && window[0].at <= g.At-interval {
			within -= window[0].permits
			window = window[1:]
		}
		if within > sum.MostIn {
			sum.MostIn, sum.MostAt = within, g.At
		}
	})
	sum.Whole = all
	return &sum, err
}
