package policymodel

import "math"

// Smooth is the model of limit.Smooth, in float64 and in the order in which Guava computes it. The
// interval of a permit and the times are microseconds.
type Smooth struct {
	stable, size, cool float64
	warm               bool
	threshold, slope   float64

	seen   bool
	last   int64 // the latest clock of a change
	stored float64
	next   int64 // the time from which it is free
}

// NewSmooth returns a Smooth of so many permits a second. The burst is in seconds, the warm-up in
// microseconds.
func NewSmooth(rate, burst, warmUp float64) *Smooth {
	m := &Smooth{stable: 1e6 / rate, warm: warmUp > 0}
	if !m.warm {
		m.size, m.cool = burst*rate, m.stable
		return m
	}
	cold := m.stable * 3
	m.threshold = 0.5 * warmUp / m.stable
	m.size = m.threshold + 2.0*warmUp/(m.stable+cold)
	m.slope = (cold - m.stable) / (m.size - m.threshold)
	m.cool = warmUp / m.size
	return m
}

// at returns the stored permits at a time, the next free time, and the time by the limiter: a later
// clock prevails.
func (m *Smooth) at(now int64) (stored float64, next, at int64) {
	if !m.seen {
		return m.size, now, now
	}
	if at = max(now, m.last); at > m.next {
		return min(m.size, m.stored+float64(at-m.next)/m.cool), at, at
	}
	return m.stored, m.next, at
}

// cost returns how long the next caller waits for permits of which so many are stored.
func (m *Smooth) cost(stored float64, permits int64) (micros int64, spent float64) {
	spent = min(float64(permits), stored)
	if m.warm {
		flat := spent
		if above := stored - m.threshold; above > 0 {
			take := min(above, spent)
			length := m.price(above) + m.price(above-take)
			micros = int64(take * length / 2)
			flat -= take
		}
		micros += int64(m.stable * flat)
	}
	return micros + int64((float64(permits)-spent)*m.stable), spent
}

func (m *Smooth) price(above float64) float64 { return m.stable + float64(above*m.slope) }

// Charge implements Model.
func (m *Smooth) Charge(now, n int64) {
	m.stored, m.next, m.last = m.at(now)
	micros, spent := m.cost(m.stored, n)
	m.seen, m.stored, m.next = true, m.stored-spent, m.next+micros
}

// Release implements Model.
func (m *Smooth) Release(now, n int64) {
	stored, next, at := m.at(now)
	if back := min(next-at, int64(float64(n)*m.stable)); back > 0 {
		m.stored, m.next, m.last = stored, next-back, at
		m.settle()
	}
}

// settle forgets a name without taken permits.
func (m *Smooth) settle() { m.seen = m.next > m.last || m.stored < m.size }

// Free implements Model.
func (m *Smooth) Free(now int64) int64 {
	stored, next, at := m.at(now)
	if next > at {
		return 0
	}
	return int64(stored)
}

// Wait implements Model.
func (m *Smooth) Wait(now, _ int64) int64 {
	if _, next, at := m.at(now); next > at {
		return next - now
	}
	return 0
}

// Reset implements Model.
func (m *Smooth) Reset(now int64) int64 {
	stored, next, at := m.at(now)
	if next == at && stored == m.size {
		return 0
	}
	return next - now + int64(math.Ceil((m.size-stored)*m.cool))
}

// Clone implements Model.
func (m *Smooth) Clone() Model {
	c := *m
	return &c
}
