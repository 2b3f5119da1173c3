package policymodel

// Penalty is the model of limit.Penalty beside another policy. Times are microseconds. Both the count and
// the penalty end when a key expires.
type Penalty struct {
	Model
	Denials, Within, For int64
	Renew                bool

	count  int64 // of denials, until counts
	counts int64
	end    int64 // of the penalty
}

// Denied counts a denied request.
func (m *Penalty) Denied(now int64) {
	if now < m.end {
		if m.Renew {
			m.end = now + m.For
		}
		return
	}
	if now >= m.counts {
		m.count, m.counts = 0, now+m.Within
	}
	if m.count++; m.count >= m.Denials {
		m.counts, m.end = 0, now+m.For
	}
}

// Forgive ends the penalty and the count.
func (m *Penalty) Forgive() { m.counts, m.end = 0, 0 }

// Own returns the microseconds until the end of the penalty.
func (m *Penalty) Own(now int64) int64 { return max(0, m.end-now) }

// Free implements Model.
func (m *Penalty) Free(now int64) int64 {
	if now < m.end {
		return min(0, m.Model.Free(now))
	}
	return m.Model.Free(now)
}

// Wait implements Model.
func (m *Penalty) Wait(now, n int64) int64 { return max(m.Model.Wait(now, n), m.Own(now)) }

// Reset implements Model.
func (m *Penalty) Reset(now int64) int64 { return max(m.Model.Reset(now), m.Own(now)) }

// Clone implements Model.
func (m *Penalty) Clone() Model {
	c := *m
	c.Model = m.Model.Clone()
	return &c
}
