package policymodel

// Pause is the model of limit.Pause beside another policy.
type Pause struct {
	Model

	end int64 // of the last pause
}

// Pause begins or extends a pause by whole milliseconds, or ends it with 0.
func (m *Pause) Pause(now, d int64) {
	switch d = (d + 999) / 1000 * 1000; {
	case d == 0:
		m.end = 0
	case d > m.Own(now):
		m.end = now + d
	}
}

// Own returns the microseconds until the pause ends.
func (m *Pause) Own(now int64) int64 { return max(0, m.end-now) }

// Free implements Model.
func (m *Pause) Free(now int64) int64 {
	if m.Own(now) > 0 {
		return min(0, m.Model.Free(now))
	}
	return m.Model.Free(now)
}

// Wait implements Model.
func (m *Pause) Wait(now, n int64) int64 { return max(m.Model.Wait(now, n), m.Own(now)) }

// Reset implements Model.
func (m *Pause) Reset(now int64) int64 { return max(m.Model.Reset(now), m.Own(now)) }

// Clone implements Model.
func (m *Pause) Clone() Model {
	c := *m
	c.Model = m.Model.Clone()
	return &c
}
