package limit

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// tokenModel is TokenBucket, and LeakyBucket, whose level is what a bucket lacks: the tokens are a fraction, so that nothing is rounded.
type tokenModel struct {
	capacity, refill, interval int64
	last                       int64    // when tokens changed
	tokens                     *big.Rat // nil: full
	leaky                      bool
	end                        *big.Rat // when the newest reservation will be made up for; nil: nobody waits
	since                      int64    // when reservations began to wait
}

// at is the tokens at a moment, and that moment as the bucket knows it: no clock takes back what another one has seen. It
// forgets the time once it is full.
func (m *tokenModel) at(now int64) (tokens *big.Rat, moment int64) {
	full := new(big.Rat).SetInt64(m.capacity)
	if m.tokens == nil {
		return full, now
	}
	moment = max(now, m.last)
	tokens = new(big.Rat).Mul(big.NewRat(moment-m.last, 1), big.NewRat(m.refill, m.interval))
	if tokens.Add(tokens, m.tokens).Cmp(full) >= 0 {
		return full, now
	}
	return tokens, moment
}

func (m *tokenModel) take(now, n int64) bool {
	if m.free(now) < n {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *tokenModel) charge(now, n int64) {
	m.settle(now)
	m.tokens.Sub(m.tokens, new(big.Rat).SetInt64(n))
}

func (m *tokenModel) release(now, n int64) {
	m.settle(now)
	back := new(big.Rat).SetInt64(n)
	if m.end != nil { // those who wait keep their moments
		waits := new(big.Rat).Mul(m.until(m.end), big.NewRat(m.refill, m.interval))
		if most := waits.Sub(m.missing(), waits); back.Cmp(most) > 0 {
			back = most
		}
		if back.Sign() < 0 {
			back.SetInt64(0)
		}
	}
	m.restore(back)
}

// settle makes a moment the one that the tokens are of.
func (m *tokenModel) settle(now int64) {
	m.tokens, m.last = m.at(now)
	if m.missing().Sign() == 0 || m.end != nil && m.ahead().Cmp(m.until(m.end)) >= 0 {
		m.end = nil
	}
}

func (m *tokenModel) restore(n *big.Rat) {
	if m.tokens.Add(m.tokens, n).Cmp(new(big.Rat).SetInt64(m.capacity)) >= 0 {
		m.tokens, m.end = nil, nil
	}
}

func (m *tokenModel) missing() *big.Rat {
	return new(big.Rat).Sub(new(big.Rat).SetInt64(m.capacity), m.tokens)
}

// per is the time for so many permits, in microseconds.
func (m *tokenModel) per(permits *big.Rat) *big.Rat {
	return new(big.Rat).Mul(permits, big.NewRat(m.interval, m.refill))
}

// until is the time from the tokens' moment on.
func (m *tokenModel) until(moment *big.Rat) *big.Rat {
	return new(big.Rat).Sub(moment, new(big.Rat).SetInt64(m.last))
}

// ahead is how long before it is made up for a reservation's moment comes at the latest.
func (m *tokenModel) ahead() *big.Rat {
	if m.leaky {
		return new(big.Rat)
	}
	return m.per(new(big.Rat).SetInt64(m.capacity))
}

// bucketTicket is a reservation of a model, and when it will be made up for.
type bucketTicket struct {
	permits *big.Rat
	end     *big.Rat
	waits   int64 // since when reservations do; 0 for one that does not wait
}

func (m *tokenModel) reserve(now, n int64) (delay int64, ticket any) {
	m.settle(now)
	made := bucketTicket{permits: new(big.Rat).SetInt64(n)}
	due := m.per(m.missing())
	m.tokens.Sub(m.tokens, made.permits)
	made.end = m.per(m.missing())
	if !m.leaky {
		due.Sub(made.end, m.ahead())
	}
	if due.Sign() > 0 {
		delay = m.last - now - floor(new(big.Rat).Neg(due))
	}
	made.end.Add(made.end, new(big.Rat).SetInt64(m.last))
	if m.ahead().Cmp(m.until(made.end)) < 0 {
		if m.end == nil {
			m.since = m.last
		}
		m.end, made.waits = made.end, m.since
	}
	return delay, made
}

func (m *tokenModel) undo(now int64, ticket any) {
	made, before := ticket.(bucketTicket), *m
	m.settle(now)
	own, later := m.until(made.end), new(big.Rat)
	switch {
	case m.end == nil && own.Cmp(m.ahead()) > 0, m.end != nil && made.waits != 0 && made.waits != m.since:
		*m = before
		return // forgotten meanwhile
	case m.end != nil && m.end.Cmp(made.end) > 0:
		later.Sub(m.end, made.end)
	}
	back := new(big.Rat).Sub(m.per(made.permits), later)
	if back.Cmp(own) > 0 {
		back = own
	}
	if back.Sign() <= 0 {
		*m = before // nothing is written
		return
	}
	if m.end != nil && m.end.Cmp(made.end) == 0 {
		m.end = new(big.Rat).Sub(m.end, m.per(made.permits))
	}
	m.restore(new(big.Rat).Quo(back, m.per(big.NewRat(1, 1))))
}

func (m *tokenModel) free(now int64) int64 {
	tokens, _ := m.at(now)
	return floor(tokens)
}

func (m *tokenModel) wait(now, n int64) int64 {
	tokens, moment := m.at(now)
	missing := new(big.Rat).Sub(new(big.Rat).SetInt64(n), tokens)
	if missing.Sign() <= 0 {
		return 0
	}
	return -floor(missing.Neg(missing.Mul(missing, big.NewRat(m.interval, m.refill)))) + moment - now
}

func (m *tokenModel) reset(now int64) int64 { return m.wait(now, m.capacity) }

// floor rounds down.
func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // rounded down for a denominator above 0
}

// TestGivenBackLessWhatCameBack: what a bucket was refilled since the call of those who had gone may be theirs, and does not come twice.
func TestGivenBackLessWhatCameBack(t *testing.T) {
	for _, p := range []Policy{TokenBucket{10, 10, time.Second}, LeakyBucket{10, 10, time.Second}} {
		b := newBench(t)
		l := New(b.client, "name", p)
		take := func(permits int64) rratelimiter.Decision {
			d, err := l.Take(t.Context(), permits)
			require.NoError(t, err)
			return d
		}
		take(4)
		lost := b.now
		take(6)
		b.pass(200 * ms)
		assert.EqualValues(t, 2+6-2, b.dated(l, lost, 6).Remaining, "%T: two of them may be there by themselves", p)
		b.pass(time.Second)
		assert.True(t, take(10).Allowed)
		assert.Zero(t, b.dated(l, lost, 6).Remaining, "%T: all of them may", p)
	}
}
