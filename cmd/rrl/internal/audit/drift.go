package audit

import (
	"context"
	"slices"
	"strconv"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
)

func setValue(l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals, right int64) repair {
	return run([]string{"unchanged", "value"}, keysOf(l, p),
		append(fingerprintOf(l, totals), strconv.FormatInt(right, 10))...)
}

// cut removes the oldest grants of excess permits, expired ones too, a page per script. The value stays.
// The repair may stop after each script: the excess is smaller then, and the state is valid.
func cut(l *inspect.Redisson, p *inspect.Pair, totals *inspect.Totals, excess int64) repair {
	return func(ctx context.Context, r *inspect.Reader) (bool, error) {
		current := *totals
		for done := false; ; done = true {
			page, err := r.Page(ctx, p.PermitsKey, 0)
			if err != nil {
				return false, err
			}
			members, smaller, rest := oldest(page, excess)
			if len(members) == 0 {
				return stopped(done)
			}
			args := slices.Concat(fingerprintOf(l, &current), []string{smaller}, members)
			reply, err := script("unchanged", "cut").Exec(ctx, r.Redis.Client, keysOf(l, p), args).ToMessage()
			if err != nil {
				return false, err
			}
			ends, err := reply.AsStrSlice() // an integer if the limiter has changed
			if err != nil || len(ends) != 2 {
				return stopped(done)
			}
			if excess = rest; excess == 0 {
				return true, nil
			}
			current.Count, current.First, current.Last = current.Count-int64(len(members)), ends[0], ends[1]
		}
	}
}

// stopped is the result of a repair that found the limiter changed.
func stopped(done bool) (bool, error) {
	if done {
		return false, errPartly
	}
	return false, nil
}

// oldest returns the members of a page that have excess permits together, or the whole page and the rest
// of excess. If the last member has more, smaller is the member for the remaining permits.
func oldest(page []inspect.Grant, excess int64) (members []string, smaller string, rest int64) {
	for _, g := range page {
		if excess == 0 {
			break
		}
		if g.Permits < 0 {
			continue // not a grant: a finding of its own
		}
		members = append(members, g.Member)
		if g.Permits > excess {
			return members, g.Resized(g.Permits - excess), 0
		}
		excess -= g.Permits
	}
	return members, "", excess
}

func keysOf(l *inspect.Redisson, p *inspect.Pair) []string {
	return []string{l.Name, p.ValueKey, p.PermitsKey}
}

// fingerprintOf returns the values that the script part "unchanged" compares: those of the
// configuration, and the fingerprint of the pair.
func fingerprintOf(l *inspect.Redisson, totals *inspect.Totals) []string {
	has, value := "0", ""
	if totals.Value != nil {
		has, value = "1", *totals.Value
	}
	return append(l.Raw()[:3], has, value, strconv.FormatInt(totals.Count, 10), totals.First, totals.Last)
}
