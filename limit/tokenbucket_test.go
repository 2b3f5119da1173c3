package limit

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tokenModel is TokenBucket and LeakyBucket, whose level is the number of missing tokens. The
// tokens are a fraction, so that nothing is rounded.
type tokenModel struct {
	capacity, refill, interval int64
	last                       int64    // when tokens changed
	tokens                     *big.Rat // nil: full
	leaky                      bool
	end                        *big.Rat // when the newest reservation is refilled; nil: none waits
	epoch                      int      // how often the bucket was full
	refunded                   *big.Rat // permits that refunds have returned since
}

// at returns the tokens at a time, and the time by the bucket: a later clock prevails. A full
// bucket forgets the time.
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
	if m.missing().Sign() == 0 {
		m.epoch++
		m.refunded, m.end = new(big.Rat), nil
	}
	m.tokens.Sub(m.tokens, new(big.Rat).SetInt64(n))
}

func (m *tokenModel) release(now, n int64) {
	before := *m
	m.settle(now)
	back := new(big.Rat).SetInt64(n)
	if m.end != nil { // reservations that wait keep their times
		waits := new(big.Rat).Mul(m.until(m.end), big.NewRat(m.refill, m.interval))
		if most := waits.Sub(m.missing(), waits); back.Cmp(most) > 0 {
			back = most
		}
	}
	if m.missing().Sign() == 0 || back.Sign() <= 0 {
		*m = before // nothing is written
		return
	}
	m.restore(back)
}

// settle computes the tokens at a time.
func (m *tokenModel) settle(now int64) {
	m.tokens, m.last = m.at(now)
	if m.missing().Sign() == 0 || m.end != nil && m.ahead().Cmp(m.until(m.end)) >= 0 {
		m.end = nil
	}
}

func (m *tokenModel) restore(n *big.Rat) {
	if m.tokens.Add(m.tokens, n).Cmp(new(big.Rat).SetInt64(m.capacity)) >= 0 {
		m.tokens, m.end = nil, nil
		return
	}
	m.refunded = new(big.Rat).Add(m.refunded, n)
}

func (m *tokenModel) missing() *big.Rat {
	return new(big.Rat).Sub(new(big.Rat).SetInt64(m.capacity), m.tokens)
}

// per is the time for so many permits, in microseconds.
func (m *tokenModel) per(permits *big.Rat) *big.Rat {
	return new(big.Rat).Mul(permits, big.NewRat(m.interval, m.refill))
}

// until is the time from that of the tokens on.
func (m *tokenModel) until(moment *big.Rat) *big.Rat {
	return new(big.Rat).Sub(moment, new(big.Rat).SetInt64(m.last))
}

// ahead is the longest duration between the time of a reservation and its refill.
func (m *tokenModel) ahead() *big.Rat {
	if m.leaky {
		return new(big.Rat)
	}
	return m.per(new(big.Rat).SetInt64(m.capacity))
}

// bucketReceipt is a reservation of a model, and the time of its refill.
type bucketReceipt struct {
	permits  *big.Rat
	end      *big.Rat
	at       int64
	refunded *big.Rat
	epoch    int
}

func (m *tokenModel) reserve(now, n int64) (delay int64, ticket any) {
	m.settle(now)
	due := m.per(m.missing())
	m.charge(now, n)
	made := bucketReceipt{permits: new(big.Rat).SetInt64(n), end: m.per(m.missing()), at: m.last, refunded: m.refunded,
		epoch: m.epoch}
	if !m.leaky {
		due.Sub(made.end, m.ahead())
	}
	if due.Sign() > 0 {
		delay = m.last - now - floor(new(big.Rat).Neg(due))
	}
	made.end.Add(made.end, new(big.Rat).SetInt64(m.last))
	if m.ahead().Cmp(m.until(made.end)) < 0 {
		m.end = made.end
	}
	return delay, made
}

func (m *tokenModel) undo(now int64, ticket any) {
	made, before := ticket.(bucketReceipt), *m
	m.settle(now)
	if m.epoch != made.epoch || m.missing().Sign() == 0 {
		*m = before // another bucket
		return
	}
	own, later := m.until(made.end), new(big.Rat)
	if m.end != nil && m.end.Cmp(made.end) > 0 {
		later.Sub(m.end, made.end)
	}
	back := own
	if own.Cmp(m.ahead()) <= 0 {
		back = m.missingOf(made)
	}
	for _, most := range []*big.Rat{new(big.Rat).Sub(m.per(made.permits), later), m.per(m.missing())} {
		if back.Cmp(most) > 0 {
			back = most
		}
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

// missingOf returns the amount that is missing because of a reservation that does not wait, as the
// time of its refill. The bucket's state bounds it.
func (m *tokenModel) missingOf(made bucketReceipt) *big.Rat {
	most := new(big.Rat).Sub(m.per(made.permits), new(big.Rat).SetInt64(m.last-made.at))
	own := new(big.Rat).Sub(m.until(made.end), m.per(new(big.Rat).Sub(m.refunded, made.refunded)))
	if most.Cmp(own) < 0 {
		most = own
	}
	return most
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

// TestRefund_Bucket_ReturnsWhatIsStillMissing: because of the grant.
func TestRefund_Bucket_ReturnsWhatIsStillMissing(t *testing.T) {
	type step struct {
		after  time.Duration
		take   int64
		refund int // of the step with this number, from 1 on
		want   int64
	}
	for name, steps := range map[string][]step{
		"the bucket was never full": {{take: 900, want: 100}, {take: 90, want: 10},
			{after: 50 * ms, refund: 2, want: 150}},
		"refill is for older grants first": {{take: 40, want: 960}, {take: 60, want: 900},
			{after: 20 * ms, refund: 2, want: 980}},
		"the grant is repaid in part": {{take: 60, want: 940}, {after: 20 * ms, refund: 1, want: 1000}},
		"others took since": {{take: 60, want: 940}, {after: 20 * ms, take: 500, want: 460},
			{refund: 1, want: 500}},
		"more was refilled since": {{take: 60, want: 940}, {after: 20 * ms, take: 500, want: 460},
			{after: 100 * ms, refund: 1, want: 560}},
		"it was full since": {{take: 60, want: 940}, {after: 100 * ms, take: 500, want: 500},
			{refund: 1, want: 500}},
		"an older grant was refunded": {
			{take: 20, want: 980}, {take: 60, want: 920}, {take: 20, want: 900}, {after: 10 * ms, refund: 2, want: 970},
			{after: 19 * ms, take: 80, want: 909},
			{after: 10 * ms, refund: 3, want: 920},
		},
	} {
		for _, p := range []Policy{TokenBucket{1000, 1000, time.Second}, LeakyBucket{1000, 1000, time.Second}} {
			b := newBench(t)
			l := New(b.client, "name", p)
			marks := make([][]string, len(steps)+1)
			for i, s := range steps {
				b.pass(s.after)
				if s.refund > 0 {
					b.refund(l, marks[s.refund], steps[s.refund-1].take)
				} else {
					marks[i+1] = b.take(l, s.take)
				}
				all, err := l.Peek(t.Context())
				require.NoError(t, err)
				assert.Equal(t, s.want, all[0].Remaining, "%s, %T: step %d", name, p, i+1)
			}
		}
	}
}
