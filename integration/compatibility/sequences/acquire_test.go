package sequences_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// reclaim returns the permits of expired grants. It returns the number of free permits, and whether
// Redis must store it.
func (m *model) reclaim(v view) (free int64, changed bool) {
	limit := m.now - v.interval
	taken, left := v.pair.Taken(limit)
	inWindow, gone := m.count(v)
	stored, there := v.pair.Count()
	free = stored
	switch {
	case !there && m.applies(lostValueCounted):
		v.keep(limit)
		return v.rate - taken, true
	case !there:
		// Redisson reads an absent value as that of a new limiter, and no grant.
		return v.rate, true
	case left > 0 || gone > 0 && m.applies(emptyGrantExpires):
		v.keep(limit)
		free, changed = free+left, true
		if free > v.rate {
			free = m.beyond(v, taken, inWindow)
		}
	}
	if inWindow == 0 && free < v.rate && m.applies(lostGrantsFree) || free > v.rate && m.applies(valueCapped) {
		free, changed = v.rate, true
	}
	return free, changed
}

// count returns how many grants are in the window, and how many have expired.
func (m *model) count(v view) (inWindow, gone int) {
	for _, g := range v.pair.Grants {
		if g.Score > m.now-v.interval {
			inWindow++
		} else {
			gone++
		}
	}
	return inWindow, gone
}

// beyond returns the number of free permits if the value and the returning permits exceed the rate.
func (m *model) beyond(v view, taken int64, inWindow int) int64 {
	switch {
	case m.applies(returnsCapped):
		return v.rate
	case calls.AtLeast(m.version, "3.38.0"):
		return v.rate - taken
	default:
		// Old releases count a grant as a permit.
		return v.rate - int64(inWindow)
	}
}

func (m *model) acquire(c calls.Call) calls.Reply {
	v := viewOf(m.State)
	switch {
	case c.Permits > maxPermits && m.applies(largeRejected), c.Permits <= 0 && m.applies(nonPositiveRejected):
		return calls.Refused
	case !v.there:
		return calls.NotInitialized
	}
	if m.applies(driftCorrected) {
		defer m.correct(v)
	}
	if c.Permits > v.rate {
		return calls.AboveRate
	}
	// If the set has no TTL, the TTL of the value is not read, and without the value the set counts.
	written := v.pair.Grants == nil || v.pair.GrantsTTL >= 0
	free, changed := m.reclaim(v)
	granted, empty := c.Permits <= free, len(v.pair.Grants) == 0
	if changed || granted && written && m.applies(strayTTLRemoved) {
		v.set(free)
	}
	if granted {
		v.add(-c.Permits)
		free -= c.Permits
		if empty {
			v.pair.GrantsTTL = state.Forever
		}
		v.pair.Grants = append(v.pair.Grants,
			state.Grant{Score: m.now, Permits: c.Permits & maxPermits})
	}
	if len(v.pair.Grants) > 0 {
		m.live(v)
	}
	switch {
	case !granted && empty:
		return calls.ScriptError // Redisson reads the age of the oldest grant
	case c.Op == calls.Acquire && granted:
		return calls.Done
	case c.Op == calls.Take && m.decides:
		return m.decide(v, granted, c.Permits, free)
	}
	return truth(granted)
}

// maxPermits is the maximum of a member.
const maxPermits = 1<<32 - 1

// correct corrects drift, as the count does that follows the first call of a Client.
func (m *model) correct(v view) {
	value, there := v.pair.Count()
	taken, left := v.pair.Taken(0)
	n := v.rate - taken - left - value
	if there && n == 0 || !there && v.pair.Grants == nil {
		return
	}
	if there {
		v.add(n)
	} else {
		v.set(n)
	}
	ttl := v.pair.ValueTTL
	v.keepAlive = 0 // a count is no use of the limiter
	if m.live(v); m.ConfigTTL < 0 {
		v.pair.ValueTTL = ttl
	}
}

// decide returns the Decision of Take after its call.
func (m *model) decide(v view, granted bool, n, left int64) calls.Reply {
	until := func(g state.Grant) time.Duration { return time.Duration(g.Score+v.interval-m.now) * time.Millisecond }
	var retry, reset time.Duration
	if !granted {
		free, _ := v.pair.Count()
		for _, g := range v.pair.Grants {
			if free >= n {
				break
			}
			free, retry = free+g.Permits, until(g)
		}
	}
	if len(v.pair.Grants) > 0 {
		reset = until(v.pair.Grants[len(v.pair.Grants)-1])
	}
	return calls.Decision(granted, v.rate, max(0, left), retry, reset)
}

func (m *model) available() calls.Reply {
	v := viewOf(m.State)
	if !v.there {
		return calls.NotInitialized
	}
	limit := m.now - v.interval
	taken, left := v.pair.Taken(limit)
	inWindow, _ := m.count(v)
	stored, there := v.pair.Count()
	free := stored + left
	switch {
	case !there && m.applies(lostValueCounted):
		free = v.rate - taken
	case !there:
		free = v.rate
	case inWindow == 0 && free < v.rate && m.applies(lostGrantsFree):
		free = v.rate
	}
	if !m.applies(availableReads) && (!there || left > 0) {
		if there {
			v.keep(limit)
		}
		v.set(free)
	}
	if m.applies(availableBounded) {
		free = max(0, min(v.rate, free))
	}
	return calls.Reply(strconv.FormatInt(free, 10))
}

func (m *model) release(n int64) calls.Reply {
	v := viewOf(m.State)
	switch {
	case n < 0:
		return calls.Refused
	case n == 0:
		return calls.Done
	case !v.there:
		return calls.NotInitialized
	}
	if !m.applies(releaseRemovesGrants) {
		value, there := v.pair.Count()
		if !there {
			value = v.rate
		}
		if m.applies(releaseShrinksGrants) {
			v.shrinkByMember(n)
		}
		v.set(min(v.rate, value+n))
		m.live(v)
		return calls.Done
	}
	free, _ := m.reclaim(v)
	v.set(min(v.rate, free+n))
	v.shrink(n)
	m.live(v)
	return calls.Done
}

// shrinkByMember is shrink, but removes a grant before it adds what remains of it. If the set was empty meanwhile, it
// has lost its time to live.
func (v view) shrinkByMember(n int64) {
	before := len(v.pair.Grants)
	var kept int64
	if before > 0 {
		kept = v.pair.Grants[before-1].Permits
	}
	v.shrink(n)
	if len(v.pair.Grants) == 1 && v.pair.Grants[0].Permits < kept {
		v.pair.GrantsTTL = state.Forever
	}
}

// shrink takes permits off the grants, the oldest first.
func (v view) shrink(n int64) {
	for n > 0 && len(v.pair.Grants) > 0 {
		oldest := &v.pair.Grants[0]
		cut := min(n, oldest.Permits)
		n, oldest.Permits = n-cut, oldest.Permits-cut
		if oldest.Permits == 0 {
			v.pair.Grants = slices.Delete(v.pair.Grants, 0, 1)
		}
	}
	if len(v.pair.Grants) == 0 {
		v.unlink()
	}
}
