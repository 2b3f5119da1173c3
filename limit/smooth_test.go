package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// smoothModel is Smooth, in float64 and in the order in which Guava computes it: the interval of a
// permit and the times are microseconds.
type smoothModel struct {
	stable, size, cool float64
	warm               bool
	threshold, slope   float64

	seen   bool
	last   int64 // the latest clock of a change
	stored float64
	next   int64 // the time from which it is free
	end    int64 // that after the newest reservation
	epoch  int   // how often it was idle
}

func newSmoothModel(rate, burst, warmUp, coldFactor float64) *smoothModel {
	m := &smoothModel{stable: 1e6 / rate, warm: warmUp > 0}
	if !m.warm {
		m.size, m.cool = burst*rate, m.stable
		return m
	}
	cold := m.stable * coldFactor
	m.threshold = 0.5 * warmUp / m.stable
	m.size = m.threshold + 2.0*warmUp/(m.stable+cold)
	m.slope = (cold - m.stable) / (m.size - m.threshold)
	m.cool = warmUp / m.size
	return m
}

// at returns the stored permits at a time, the next free time, and the time by the limiter: a later
// clock prevails.
func (m *smoothModel) at(now int64) (stored float64, next, at int64) {
	if !m.seen {
		return m.size, now, now
	}
	if at = max(now, m.last); at > m.next {
		return min(m.size, m.stored+float64(at-m.next)/m.cool), at, at
	}
	return m.stored, m.next, at
}

// cost returns how long the next caller waits for permits of which so many are stored.
func (m *smoothModel) cost(stored float64, permits int64) (micros int64, spent float64) {
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

func (m *smoothModel) price(above float64) float64 { return m.stable + float64(above*m.slope) }

func (m *smoothModel) take(now, n int64) bool {
	if _, next, at := m.at(now); next > at {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *smoothModel) charge(now, n int64) {
	if m.stored, m.next, m.last = m.at(now); m.next == m.last && m.stored == m.size {
		m.epoch++
	}
	micros, spent := m.cost(m.stored, n)
	m.seen, m.stored, m.next = true, m.stored-spent, m.next+micros
}

func (m *smoothModel) release(now, n int64) {
	stored, next, at := m.at(now)
	first := at
	if m.end > at { // reservations that wait keep their times
		first = min(m.end, next)
	}
	if back := min(next-first, int64(float64(n)*m.stable)); back > 0 {
		m.stored, m.next, m.last = stored, next-back, at
		m.settle()
	}
}

// settle forgets a name without taken permits.
func (m *smoothModel) settle() { m.seen = m.next > m.last || m.stored < m.size }

// smoothTicket is a reservation of a model: the next free time after it, its cost, and the stored
// permits it found.
type smoothTicket struct {
	end, cost int64
	spent     float64
	epoch     int
}

func (m *smoothModel) reserve(now, n int64) (delay int64, ticket any) {
	delay = m.wait(now, n)
	stored, _, _ := m.at(now)
	cost, spent := m.cost(stored, n)
	m.charge(now, n)
	if m.next > m.last {
		m.end = m.next
	}
	return delay, smoothTicket{m.next, cost, spent, m.epoch}
}

func (m *smoothModel) undo(now int64, ticket any) {
	made := ticket.(smoothTicket)
	stored, next, at := m.at(now)
	unused, back := made.spent, int64(0)
	switch later := max(0, m.end-made.end); {
	case made.epoch != m.epoch, next == at && stored == m.size:
		return // it was idle in between
	case made.end <= at:
		unused -= float64(at-made.end) / m.cool
	case later > 0:
		unused, back = 0, made.cost-later
	default:
		back = made.cost
		if m.end == made.end {
			m.end -= made.cost
		}
	}
	if unused > 0 || back > 0 {
		m.seen, m.last, m.stored, m.next = true, at, min(m.size, stored+max(0, unused)), next-max(0, back)
		m.stored, m.next, _ = m.at(now)
		m.settle()
	}
}

func (m *smoothModel) free(now int64) int64 {
	stored, next, at := m.at(now)
	if next > at {
		return 0
	}
	return int64(stored)
}

func (m *smoothModel) wait(now, _ int64) int64 {
	if _, next, at := m.at(now); next > at {
		return next - now
	}
	return 0
}

func (m *smoothModel) reset(now int64) int64 {
	stored, next, at := m.at(now)
	if next == at && stored == m.size {
		return 0
	}
	return next - now + int64(math.Ceil((m.size-stored)*m.cool))
}

// TestSmooth_RequestsOfOneCall_AreDecidedInTurn: as if each came alone after those before it.
func TestSmooth_RequestsOfOneCall_AreDecidedInTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, p := range []struct {
		policy Smooth
		model  func() *smoothModel
	}{
		{Smooth{Permits: 10, Interval: time.Second, Burst: 3 * time.Second},
			func() *smoothModel { return newSmoothModel(10, 3, 0, 0) }},
		{Smooth{Permits: 10, Interval: time.Second, WarmUp: 3 * time.Second},
			func() *smoothModel { return newSmoothModel(10, 0, 3e6, 3) }},
	} {
		b := newBench(t)
		l := New(b.client, "name", p.policy)
		m := p.model()
		several := 0
		for step := range 200 {
			b.pass(micros(random.Int64N(2e6)))
			batch := &engine.Batch{Full: true}
			var want []bool
			var remaining []int64
			for range 1 + random.IntN(6) {
				r := &engine.Request{Permits: 1 + random.Int64N(9)}
				batch.Requests = append(batch.Requests, r)
				want = append(want, m.take(b.now, r.Permits))
				remaining = append(remaining, m.free(b.now))
			}
			call := acquiring{protocol{&l.wire}}
			call.Arguments(batch, time.UnixMicro(b.now))
			script, keys := call.Call(batch)
			reply, err := l.client.Engine.Eval(t.Context(), script, keys, batch.Args, nil)
			require.NoError(t, err)
			_, err = call.Answer(batch, reply)
			require.NoError(t, err)
			for i, r := range batch.Requests {
				where := fmt.Sprintf("%+v, step %d, request %d of %v", p.policy, step, i, batch.Args)
				require.Equal(t, want[i], r.Allowed, where)
				// A call reports the time after all of its requests.
				if i == len(want)-1 || want[i+1] {
					require.Equal(t, remaining[i], r.Remaining, where)
				}
				if i > 0 && r.Allowed {
					several++
				}
			}
		}
		assert.Equal(t, p.policy.WarmUp == 0, several > 50, "%d", several)
	}
}

// TestSmooth_ForeignState_IsAStateError.
func TestSmooth_ForeignState_IsAStateError(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", Smooth{Permits: 1, Interval: time.Second})
	for _, text := range []string{
		"x", "a", "a 1", "a 1 2", "a 1 2 3 4 5", "a 1 2 3 -4", "a 1 2 3 99999999999999999", "a 1 99999999999999999 4",
		"a 1 2 x", "a 1 -2 3", "a 1 2 -3",
		"a -1 2 3", "a 1.2.3 4 5", "a 1e 2 3", "a nan 2 3", "a inf 2 3", "a 1 2 3 ", " a 1 2 3", "a 1 2.5 3", "1 2 3",
	} {
		require.NoError(t, b.redis.Set("{name}:smooth:1000", text))
		_, err := l.Take(t.Context(), 1)
		var state *rratelimiter.StateError
		require.ErrorAs(t, err, &state, text)
		assert.Equal(t, rratelimiter.StateError{Key: "{name}:smooth:1000", Value: text}, *state)
	}
}

// TestSmooth_CostAboveABound_IsRefused: the error has a type. Without it, the limiter would grant
// no more.
func TestSmooth_CostAboveABound_IsRefused(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", Smooth{Permits: 1, Interval: time.Hour})
	for _, permits := range []int64{1<<32 - 1, 1 << 31} {
		for name, err := range map[string]error{
			"TryAcquire": func() error { _, err := l.TryAcquire(t.Context(), permits); return err }(),
			"Reserve":    func() error { _, err := l.Reserve(t.Context(), permits); return err }(),
			"Acquire":    l.Acquire(t.Context(), permits),
		} {
			assert.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate, name)
		}
	}
	assert.Empty(t, b.redis.Keys())
	for _, p := range []Smooth{{Permits: 1, Interval: maxInterval},
		{Permits: 1, Interval: 1000 * time.Hour, WarmUp: time.Hour, ColdFactor: 1e6}} {
		_, err := New(b.client, "name", p).TryAcquire(t.Context(), 1)
		assert.ErrorIs(t, err, rratelimiter.ErrInvalidRate, "%+v", p)
	}
}

// TestSmooth_LargestCosts_AreCancelledWhole: a ticket can represent each cost, and no sum of costs
// is lost.
func TestSmooth_LargestCosts_AreCancelledWhole(t *testing.T) {
	for _, p := range []Smooth{{Permits: 1, Interval: time.Hour}, {Permits: 1, Interval: 100 * 365 * 24 * time.Hour},
		{Permits: 3, Interval: time.Hour, WarmUp: time.Hour, ColdFactor: 1e6}} {
		b := newBench(t)
		l := New(b.client, "name", p)
		var made []*Reservation
		var before []rratelimiter.Decision
		for range 5 {
			now, err := l.Peek(t.Context())
			require.NoError(t, err)
			r, err := l.Reserve(t.Context(), p.most())
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				break
			}
			made, before = append(made, r), append(before, now[0])
		}
		require.NotEmpty(t, made)
		for i, r := range slices.Backward(made) {
			require.NoError(t, r.revoke(t.Context()))
			after, err := l.Peek(t.Context())
			require.NoError(t, err)
			assert.Equal(t, before[i].RetryAfter, after[0].RetryAfter, "%+v: %d", p, i)
		}
	}
}
