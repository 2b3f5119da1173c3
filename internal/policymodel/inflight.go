package policymodel

import "slices"

// InFlight is the model of limit.InFlight. Its Lease is in microseconds.
type InFlight struct {
	Permits, Lease int64

	grants [][2]int64 // end and permits, the earliest first
	last   int64      // the latest clock of a change
}

// at returns a copy of the grants whose lease has not ended, and the latest clock.
func (m *InFlight) at(now int64) (grants [][2]int64, at int64) {
	if at = now - now%1000; m.grants != nil {
		at = max(at, m.last)
	}
	for _, g := range m.grants {
		if g[0] > at {
			grants = append(grants, g)
		}
	}
	return grants, at
}

// Charge implements Model. A limiter does it only for a grant.
func (m *InFlight) Charge(now, n int64) {
	grants, at := m.at(now)
	grants = append(grants, [2]int64{at + m.Lease, n})
	m.grants, m.last = grants, at
	slices.SortStableFunc(m.grants, func(a, b [2]int64) int { return int(a[0] - b[0]) })
}

// Release implements Model: only the holder of permits returns them.
func (*InFlight) Release(int64, int64) {}

// Return returns n permits of a grant that was made since a time, if there is one, and the grants whose lease has ended.
func (m *InFlight) Return(now, n, since int64) {
	grants, at := m.at(now)
	i := slices.IndexFunc(grants, func(g [2]int64) bool { return g[1] == n && g[0] >= since-since%1000+m.Lease })
	if i >= 0 {
		grants = slices.Delete(grants, i, i+1)
	}
	if len(grants) < len(m.grants) {
		m.grants, m.last = grants, at
	}
	if len(grants) == 0 {
		m.grants = nil // and the clock is forgotten
	}
}

// Free implements Model.
func (m *InFlight) Free(now int64) int64 {
	free := m.Permits
	grants, _ := m.at(now)
	for _, g := range grants {
		free -= g[1]
	}
	return free
}

// Wait returns a guess: a second, or the time until the first lease ends.
func (m *InFlight) Wait(now, n int64) int64 {
	if grants, _ := m.at(now); n > m.Free(now) {
		return min(1_000_000, grants[0][0]-now)
	}
	return 0
}

// Reset implements Model.
func (m *InFlight) Reset(now int64) int64 {
	if grants, _ := m.at(now); len(grants) > 0 {
		return grants[len(grants)-1][0] - now
	}
	return 0
}

// Clone implements Model. A change replaces the grants by a copy.
func (m *InFlight) Clone() Model {
	c := *m
	return &c
}
