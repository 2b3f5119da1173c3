package limit

// fixedModel is FixedWindow.
type fixedModel struct {
	permits, interval int64
	aligned           bool
	begin, count      int64 // of the last window
}

// at is the window of a time.
func (m *fixedModel) at(now int64) (begin, count int64) {
	now -= now % 1000
	if m.count > 0 && now < m.begin+m.interval {
		return m.begin, m.count
	}
	if m.aligned {
		return now - now%m.interval, 0
	}
	return now, 0
}

func (m *fixedModel) take(now, n int64) bool {
	if n > m.free(now) {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *fixedModel) charge(now, n int64) {
	m.begin, m.count = m.at(now)
	m.count += n
}

func (m *fixedModel) release(now, n int64) {
	if begin, count := m.at(now); count > 0 {
		m.begin, m.count = begin, max(0, count-n)
	}
}

func (m *fixedModel) free(now int64) int64 {
	_, count := m.at(now)
	return m.permits - count
}

func (m *fixedModel) wait(now, n int64) int64 {
	begin, count := m.at(now)
	if count+n <= m.permits {
		return 0
	}
	return begin + m.interval - now
}

func (m *fixedModel) reset(now int64) int64 {
	if begin, count := m.at(now); count > 0 {
		return begin + m.interval - now
	}
	return 0
}
