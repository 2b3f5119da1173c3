package engine

import (
	"cmp"
	"time"
)

// view is the forecast of a fake.
type view struct {
	limit, free int64
	after       time.Duration // until all permits are free
	every       time.Duration
	returns     [][2]int64 // permits, and after how many milliseconds they return; nil: all after the same time
	lag, renew  time.Duration
	recheck     time.Duration
}

func (v *view) Limit() int64 { return v.limit }

func (v *view) Free() int64 { return v.free }

// wait returns the time until permits are free, at most the limit.
func (v *view) wait(permits int64) time.Duration {
	free := v.free
	if permits <= free {
		return 0
	}
	for _, r := range v.returns {
		if free += r[0]; permits <= free {
			return time.Duration(r[1]) * time.Millisecond
		}
	}
	return v.after
}

func (v *view) Denied(permits int64) (Answer, bool) {
	a := Answer{Limit: v.limit, Remaining: v.free, RetryAfter: v.wait(permits), ResetAfter: v.after}
	return a, permits > v.free
}

func (v *view) Parts(permits int64) []Answer {
	a, denied := v.Denied(permits)
	a.Allowed = !denied
	return []Answer{a, {Limit: 100, RetryAfter: v.after / 2, ResetAfter: v.after / 4}}
}

func (v *view) Lag() time.Duration { return v.lag }

func (v *view) Renew() time.Duration { return cmp.Or(v.renew, Never) }

func (v *view) Recheck() time.Duration { return cmp.Or(v.recheck, Never) }

func (v *view) Earliest(ahead, permits int64) time.Duration {
	rounds := (ahead + permits - 1) / v.limit
	after := v.wait(ahead + permits - rounds*v.limit)
	if v.every > 0 && rounds > int64((Never-after)/v.every) {
		return Never
	}
	return after + time.Duration(rounds)*v.every
}
