package policymodel

// SlidingLog is the model of limit.SlidingLog. Its Interval is in microseconds.
type SlidingLog struct {
	Permits, Interval int64

	entries [][2]int64 // time and permits
	last    int64      // the latest clock of a change
}

// at returns a copy of the entries that have not expired, and the time by the log.
func (m *SlidingLog) at(now int64) (entries [][2]int64, at int64) {
	at = now - now%1000
	if len(m.entries) > 0 {
		at = max(at, m.last)
	}
	for _, e := range m.entries {
		if e[0] > at-m.Interval {
			entries = append(entries, e)
		}
	}
	return entries, at
}

// Charge implements Model.
func (m *SlidingLog) Charge(now, n int64) {
	m.entries, m.last = m.at(now)
	if end := len(m.entries) - 1; end >= 0 && m.entries[end][0] == m.last {
		m.entries[end][1] += n
	} else {
		m.entries = append(m.entries, [2]int64{m.last, n})
	}
}

// Release implements Model.
func (m *SlidingLog) Release(now, n int64) {
	entries, at := m.at(now)
	if len(entries) == 0 {
		return
	}
	m.entries, m.last = entries, at
	for n > 0 && len(m.entries) > 0 {
		back := min(n, m.entries[0][1])
		n -= back
		if m.entries[0][1] -= back; m.entries[0][1] == 0 {
			m.entries = m.entries[1:]
		}
	}
}

// Free implements Model.
func (m *SlidingLog) Free(now int64) int64 {
	free := m.Permits
	entries, _ := m.at(now)
	for _, e := range entries {
		free -= e[1]
	}
	return free
}

// Wait returns a lower bound if more entries than a page must expire, as the script does.
func (m *SlidingLog) Wait(now, n int64) int64 {
	need := n - m.Free(now)
	entries, _ := m.at(now)
	for i, e := range entries {
		if need <= 0 {
			break
		}
		if need -= e[1]; need <= 0 || i == 255 {
			return e[0] + m.Interval - now
		}
	}
	return 0
}

// Reset implements Model.
func (m *SlidingLog) Reset(now int64) int64 {
	if entries, _ := m.at(now); len(entries) > 0 {
		return entries[len(entries)-1][0] + m.Interval - now
	}
	return 0
}

// Clone implements Model. A change replaces the entries by a copy.
func (m *SlidingLog) Clone() Model {
	c := *m
	return &c
}
