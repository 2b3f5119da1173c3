package policymodel

import "maps"

// SlidingWindow is the model of limit.SlidingWindow. A Cell is its length in microseconds.
type SlidingWindow struct {
	Permits, Cell, Cells int64

	counts map[int64]int64 // by the number of the cell, above 0; nil: no permit is taken
	last   int64           // the newest cell with a grant
}

// at returns the cell of a time, and the first one that overlaps the interval before it.
func (m *SlidingWindow) at(now int64) (first, cell int64) {
	cell = now / m.Cell
	if m.counts != nil {
		cell = max(cell, m.last)
	}
	return cell - m.Cells, cell
}

func (m *SlidingWindow) taken(now int64) (taken, newest int64) {
	first, _ := m.at(now)
	for i, n := range m.counts {
		if i >= first {
			taken, newest = taken+n, max(newest, i)
		}
	}
	return taken, newest
}

// Charge implements Model.
func (m *SlidingWindow) Charge(now, n int64) {
	first, cell := m.at(now)
	for i := range m.counts {
		if i < first {
			delete(m.counts, i)
		}
	}
	if m.counts == nil {
		m.counts = make(map[int64]int64)
	}
	m.counts[cell] += n
	m.last = cell
}

// Release implements Model.
func (m *SlidingWindow) Release(now, n int64) {
	taken, _ := m.taken(now)
	if n >= taken {
		if taken > 0 {
			m.counts = nil
		}
		return
	}
	first, cell := m.at(now)
	for i := cell; i >= first; i-- {
		back := min(n, m.counts[i])
		n -= back
		if m.counts[i] -= back; m.counts[i] == 0 {
			delete(m.counts, i)
		}
	}
}

// Free implements Model.
func (m *SlidingWindow) Free(now int64) int64 {
	taken, _ := m.taken(now)
	return m.Permits - taken
}

// Wait implements Model.
func (m *SlidingWindow) Wait(now, n int64) int64 {
	need := n - m.Free(now)
	first, cell := m.at(now)
	for i := first; need > 0 && i <= cell; i++ {
		if need -= m.counts[i]; need <= 0 {
			return (i+1+m.Cells)*m.Cell - now
		}
	}
	return 0
}

// Reset implements Model.
func (m *SlidingWindow) Reset(now int64) int64 {
	taken, newest := m.taken(now)
	if taken == 0 {
		return 0
	}
	return (newest+1+m.Cells)*m.Cell - now
}

// Clone implements Model.
func (m *SlidingWindow) Clone() Model {
	c := *m
	c.counts = maps.Clone(m.counts)
	return &c
}
