package look

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/redis/rueidis"
)

// Ledger is what the grants of a pair come to, beside its value, as they were at one moment.
type Ledger struct {
	Value       *string
	Count       int64  // of the members
	First, Last string // of them
	Newest      int64  // Unix milliseconds, 0 for no grant
	Permits     int64  // of all grants, expired ones included: value and they are the rate
	Whole       bool   // all were counted, at one moment

	MostIn, MostAt int64 // the most permits within one interval, and the time at its end

	Old            []Grant // as releases before 3.17 wrote them, a page of them
	OldCount       int64
	Strange        int64 // members that are no grants
	StrangeMembers []string
	TypesWrong     bool
}

// Number is the value as a number, where it is one.
func (l *Ledger) Number() (int64, bool) { return permits(l.Value) }

// Rewritten is the member as releases since 3.17.1 write it.
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

// tries is how often a limiter is looked at that changes meanwhile.
const tries = 5

// Ledger counts the grants of a pair. Where programs take permits meanwhile it looks again; Whole is false where that went on. It is nil
// where the configuration is another one by now: what was found of the limiter does not hold any more.
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

// mark reads what changes with whatever changes in a pair, nil where the configuration has changed.
func (r *Reader) mark(ctx context.Context, l *Redisson, p *Pair) (*Ledger, error) {
	b := r.Redis.B
	told, err := r.ask(ctx, rueidis.Commands{
		r.value(p.ValueKey), b().Zcard().Key(p.PermitsKey).Build(),
		b().Zrange().Key(p.PermitsKey).Min("0").Max("0").Withscores().Build(), b().Zrange().Key(p.PermitsKey).Min("-1").Max("-1").Withscores().Build(),
		b().Exists().Key(p.ValueKey).Build(), b().Hmget().Key(l.Name).Field(fields...).Build(),
	})
	if err != nil {
		return nil, err
	}
	if raw, _ := optionalTexts(told[5]); !slices.Equal((&Redisson{raw: raw}).Raw(), l.Raw()) {
		return nil, nil
	}
	m := &Ledger{Count: number(told[1]), TypesWrong: wrongType(told[1].Error())}
	var other bool
	m.Value, other = value(told[0], number(told[4]) == 1)
	m.TypesWrong = m.TypesWrong || other
	if first, err := decodeGrants(told[2]); err == nil && len(first) == 1 {
		m.First = first[0].Member
	}
	if last, err := decodeGrants(told[3]); err == nil && len(last) == 1 {
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
	var window []dated // the grants within an interval of the last one seen
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
