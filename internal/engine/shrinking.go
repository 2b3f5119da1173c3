package engine

// shrinking is a map that frees its memory when it has become small: Go's maps keep what they had at their largest.
type shrinking[V any] struct {
	all  map[string]V
	peak int // of its length since all was made
}

// small is the length up to which a map is not worth to be made again.
const small = 64

func (m *shrinking[V]) set(key string, value V) {
	if m.all == nil {
		m.all = make(map[string]V)
	}
	m.all[key] = value
	m.peak = max(m.peak, len(m.all))
}

func (m *shrinking[V]) remove(key string) {
	delete(m.all, key)
	if m.peak <= small || len(m.all) > m.peak/8 {
		return
	}
	less := make(map[string]V, len(m.all))
	for key, value := range m.all {
		less[key] = value
	}
	m.all, m.peak = less, len(less)
}
