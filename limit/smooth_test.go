package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// smoothModel is Smooth, in float64 and in the order in which Guava computes it: the interval of a permit and the times are
// microseconds.
type smoothModel struct {
	stable, size, cool float64
	warm               bool
	threshold, slope   float64

	seen   bool
	stored float64
	next   int64 // the moment from which it is free
	end    int64 // that behind the newest reservation
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

// at is what is stored at a moment, and the next free one.
func (m *smoothModel) at(now int64) (stored float64, next int64) {
	switch {
	case !m.seen:
		return m.size, now
	case now > m.next:
		return min(m.size, m.stored+float64(now-m.next)/m.cool), now
	}
	return m.stored, m.next
}

// cost is how long the next caller waits for permits of which so many are stored.
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
	if _, next := m.at(now); next > now {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *smoothModel) charge(now, n int64) {
	m.stored, m.next = m.at(now)
	micros, spent := m.cost(m.stored, n)
	m.seen, m.stored, m.next = true, m.stored-spent, m.next+micros
}

func (m *smoothModel) release(now, n int64) {
	m.stored, m.next = m.at(now)
	m.next = max(now, m.next-int64(float64(n)*m.stable))
	m.settle(now)
}

// settle forgets a name of which nothing is taken.
func (m *smoothModel) settle(now int64) { m.seen = m.next > now || m.stored < m.size }

// smoothTicket is a reservation of a model: the next free moment behind it, what it cost, and the stored permits it found.
type smoothTicket struct {
	end, cost int64
	spent     float64
}

func (m *smoothModel) reserve(now, n int64) (delay int64, ticket any) {
	stored, next := m.at(now)
	cost, spent := m.cost(stored, n)
	m.charge(now, n)
	if m.next > now {
		m.end = m.next
	}
	return next - now, smoothTicket{m.next, cost, spent}
}

func (m *smoothModel) undo(now int64, ticket any) {
	made := ticket.(smoothTicket)
	stored, next := m.at(now)
	unused, back := made.spent, int64(0)
	switch later := max(0, m.end-made.end); {
	case made.end <= now:
		unused -= float64(now-made.end) / m.cool
	case m.end <= now:
		return // forgotten meanwhile
	case later > 0:
		unused, back = 0, made.cost-later
	default:
		back = made.cost
		if m.end == made.end {
			m.end -= made.cost
		}
	}
	if unused > 0 || back > 0 {
		m.seen, m.stored, m.next = true, min(m.size, stored+max(0, unused)), next-max(0, back)
		m.stored, m.next = m.at(now)
		m.settle(now)
	}
}

func (m *smoothModel) free(now int64) int64 {
	stored, next := m.at(now)
	if next > now {
		return 0
	}
	return int64(stored)
}

func (m *smoothModel) wait(now, _ int64) int64 {
	_, next := m.at(now)
	return next - now
}

func (m *smoothModel) reset(now int64) int64 {
	stored, next := m.at(now)
	return next - now + int64(math.Ceil((m.size-stored)*m.cool))
}

// TestSmoothJudgesEachOfACall as if it had come alone behind those before it.
func TestSmoothJudgesEachOfACall(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, p := range []struct {
		policy Smooth
		model  func() *smoothModel
	}{
		{Smooth{Permits: 10, Interval: time.Second, Burst: 3 * time.Second}, func() *smoothModel { return newSmoothModel(10, 3, 0, 0) }},
		{Smooth{Permits: 10, Interval: time.Second, WarmUp: 3 * time.Second}, func() *smoothModel { return newSmoothModel(10, 0, 3e6, 3) }},
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
				r := &engine.Request{Ask: engine.Ask{Permits: 1 + random.Int64N(9)}}
				batch.Requests = append(batch.Requests, r)
				want = append(want, m.take(b.now, r.Permits))
				remaining = append(remaining, m.free(b.now))
			}
			call := (*protocol)(l)
			call.Arguments(batch, time.UnixMicro(b.now))
			script, keys := call.Call(batch)
			reply, err := l.client.Engine.Eval(t.Context(), script, keys, batch.Args, nil)
			require.NoError(t, err)
			_, err = call.Answer(batch, reply)
			require.NoError(t, err)
			for i, r := range batch.Requests {
				where := fmt.Sprintf("%+v, step %d, request %d of %v", p.policy, step, i, batch.Args)
				require.Equal(t, want[i], r.Allowed, where)
				// A call tells of the time behind all of its requests.
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

// TestSmoothStateThatIsNotOurs.
func TestSmoothStateThatIsNotOurs(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", Smooth{Permits: 1, Interval: time.Second})
	for _, text := range []string{"x", "1", "1 2 3 4", "1 2 -3", "1 2 x", "1 -2", "-1 2", "1.2.3 4", "1e 2", "nan 2", "inf 2", "1 2 ", " 1 2", "1 2.5"} {
		require.NoError(t, b.redis.Set("{name}:smooth:1000", text))
		_, err := l.Take(t.Context(), 1)
		var state *rratelimiter.StateError
		require.ErrorAs(t, err, &state, text)
		assert.Equal(t, rratelimiter.StateError{Key: "{name}:smooth:1000", Value: text}, *state)
	}
}
