package policymodel

// Pause is the model of limit.Pause beside another policy. After a pause, a bucket of Permits, empty but
// for one, fills within microseconds.
type Pause struct {
	Model
	Permits, Within int64

	end   int64 // of the last pause, in whole milliseconds; 0 for none
	taken int64 // since then
}

// Pause begins or extends a pause, or ends it with 0.
func (m *Pause) Pause(now, d int64) {
	if d == 0 {
		m.end = 0
		return
	}
	end := now + d
	if rest := end % 1000; rest > 0 {
		end += 1000 - rest
	}
	if now < m.end {
		end = max(end, m.end)
	}
	m.end, m.taken = end, 0
}

// come returns the permits that have come free since a pause. It returns false if there is none, or
// all are free.
func (m *Pause) come(now int64) (permits int64, ok bool) {
	switch since := now - m.end; {
	case m.end == 0, since >= 0 && m.Permits == 0:
		return 0, false
	case since < 0:
		return 0, true
	default:
		permits = since*m.Permits/m.Within + 1 - m.taken
		if permits >= m.Permits {
			m.end = 0
		}
		return permits, permits < m.Permits
	}
}

// Charge implements Model.
func (m *Pause) Charge(now, n int64) {
	m.Model.Charge(now, n)
	if come, _ := m.come(now); now >= m.end {
		m.taken += min(n, max(0, come))
	}
}

// Free implements Model.
func (m *Pause) Free(now int64) int64 {
	free := m.Model.Free(now)
	if come, ok := m.come(now); ok {
		free = min(free, come)
	}
	return free
}

// Own returns the microseconds until the pause alone grants permits.
func (m *Pause) Own(now, n int64) int64 {
	come, ok := m.come(now)
	switch {
	case !ok || come >= n:
		return 0
	case now < m.end:
		return m.end - now
	}
	return m.until(now, n)
}

// until returns the microseconds until n permits are free, or all are.
func (m *Pause) until(now, n int64) int64 {
	if m.Permits == 0 {
		return m.end - now
	}
	return m.end + ((m.taken+min(n, m.Permits)-1)*m.Within+m.Permits-1)/m.Permits - now
}

// Wait implements Model.
func (m *Pause) Wait(now, n int64) int64 { return max(m.Model.Wait(now, n), m.Own(now, n)) }

// Reset implements Model.
func (m *Pause) Reset(now int64) int64 {
	reset := m.Model.Reset(now)
	if _, ok := m.come(now); ok {
		reset = max(reset, m.until(now, m.Permits))
	}
	return reset
}

// Clone implements Model.
func (m *Pause) Clone() Model {
	c := *m
	c.Model = m.Model.Clone()
	return &c
}
