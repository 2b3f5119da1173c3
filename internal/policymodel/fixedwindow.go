package policymodel

// FixedWindow is the model of limit.FixedWindow. Its Interval is in microseconds.
type FixedWindow struct {
	Permits, Interval int64
	Aligned           bool

	begin, count int64 // of the window of the last change
}

// at returns the begin of the window of a time, and the permits that are taken in it.
func (m *FixedWindow) at(now int64) (begin, count int64) {
	now -= now % 1000
	if m.count > 0 && now < m.begin+m.Interval {
		return m.begin, m.count
	}
	if m.Aligned {
		return now - now%m.Interval, 0
	}
	return now, 0
}

// Charge implements Model.
func (m *FixedWindow) Charge(now, n int64) {
	m.begin, m.count = m.at(now)
	m.count += n
}

// Release implements Model.
func (m *FixedWindow) Release(now, n int64) {
	if begin, count := m.at(now); count > 0 {
		m.begin, m.count = begin, max(0, count-n)
	}
}

// Free implements Model.
func (m *FixedWindow) Free(now int64) int64 {
	_, count := m.at(now)
	return m.Permits - count
}

// Wait implements Model.
func (m *FixedWindow) Wait(now, n int64) int64 {
	begin, count := m.at(now)
	if count+n <= m.Permits {
		return 0
	}
	return begin + m.Interval - now
}

// Reset implements Model.
func (m *FixedWindow) Reset(now int64) int64 {
	if begin, count := m.at(now); count > 0 {
		return begin + m.Interval - now
	}
	return 0
}

// Clone implements Model.
func (m *FixedWindow) Clone() Model {
	c := *m
	return &c
}
