package limit

import "math/big"

// tokenModel is TokenBucket: the tokens are a fraction, so that nothing is rounded.
type tokenModel struct {
	capacity, refill, interval int64
	last                       int64    // when tokens changed
	tokens                     *big.Rat // nil: full
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
	m.tokens, m.last = m.at(now)
	m.tokens.Sub(m.tokens, new(big.Rat).SetInt64(n))
}

func (m *tokenModel) release(now, n int64) {
	m.charge(now, -n)
	if m.tokens.Cmp(new(big.Rat).SetInt64(m.capacity)) >= 0 {
		m.tokens = nil
	}
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
