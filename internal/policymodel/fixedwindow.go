package policymodel

// FixedWindow is the model of limit.FixedWindow. Its Interval is in microseconds. Times are those of the clock
// of Redis.
type FixedWindow struct {
	Permits, Interval int64
	Aligned           bool

	window
}

// window is the permits that were taken in a window. Redis expires it, in whole milliseconds.
type window struct{ end, count int64 }

// ended reports whether no permit is taken at a time.
func (w *window) ended(now int64) bool { return w.count == 0 || now >= w.end }

// left returns the time until the window ends as PTTL replies it, and at least a millisecond.
func (w *window) left(now int64) int64 { return max(1000, (w.end-now)/1000*1000) }

// charge takes permits in a window that ends at a time if it begins now.
func (w *window) charge(now, n, end int64) {
	if w.ended(now) {
		*w = window{end: end}
	}
	w.count += n
}

func (w *window) free(now, permits int64) int64 {
	if w.ended(now) {
		return permits
	}
	return permits - w.count
}

// Release implements Model.
func (w *window) Release(now, n int64) {
	if !w.ended(now) {
		w.count = max(0, w.count-n)
	}
}

// Reset implements Model.
func (w *window) Reset(now int64) int64 {
	if w.ended(now) {
		return 0
	}
	return w.left(now)
}

// Charge implements Model.
func (m *FixedWindow) Charge(now, n int64) {
	end := now + m.Interval
	if m.Aligned {
		end -= (now - now%1000) % m.Interval
	}
	m.charge(now, n, end)
}

// Free implements Model.
func (m *FixedWindow) Free(now int64) int64 { return m.free(now, m.Permits) }

// Wait implements Model.
func (m *FixedWindow) Wait(now, n int64) int64 {
	if n <= m.Free(now) || m.ended(now) {
		return 0
	}
	return m.left(now)
}

// Clone implements Model.
func (m *FixedWindow) Clone() Model {
	c := *m
	return &c
}
