package policymodel

import "math/big"

// TokenBucket is the model of limit.TokenBucket, and of limit.LeakyBucket, whose level is the number
// of missing tokens. Its Interval is in microseconds. The tokens are a fraction, so that nothing is
// rounded.
type TokenBucket struct {
	Capacity, Refill, Interval int64

	last   int64    // when tokens changed
	tokens *big.Rat // nil: full
}

// at returns the tokens at a time, and the time by the bucket: a later clock prevails. A full
// bucket forgets the time.
func (m *TokenBucket) at(now int64) (tokens *big.Rat, at int64) {
	full := new(big.Rat).SetInt64(m.Capacity)
	if m.tokens == nil {
		return full, now
	}
	at = max(now, m.last)
	tokens = new(big.Rat).Mul(big.NewRat(at-m.last, 1), big.NewRat(m.Refill, m.Interval))
	if tokens.Add(tokens, m.tokens).Cmp(full) >= 0 {
		return full, now
	}
	return tokens, at
}

// Charge implements Model.
func (m *TokenBucket) Charge(now, n int64) {
	tokens, at := m.at(now)
	m.tokens, m.last = new(big.Rat).Sub(tokens, new(big.Rat).SetInt64(n)), at
}

// Release implements Model.
func (m *TokenBucket) Release(now, n int64) {
	full := new(big.Rat).SetInt64(m.Capacity)
	tokens, at := m.at(now)
	if tokens.Cmp(full) >= 0 {
		return // nothing is written
	}
	m.tokens, m.last = new(big.Rat).Add(tokens, new(big.Rat).SetInt64(n)), at
	if m.tokens.Cmp(full) >= 0 {
		m.tokens = nil
	}
}

// Free implements Model.
func (m *TokenBucket) Free(now int64) int64 {
	tokens, _ := m.at(now)
	return floor(tokens)
}

// Wait implements Model.
func (m *TokenBucket) Wait(now, n int64) int64 {
	tokens, at := m.at(now)
	missing := new(big.Rat).Sub(new(big.Rat).SetInt64(n), tokens)
	if missing.Sign() <= 0 {
		return 0
	}
	return -floor(missing.Neg(missing.Mul(missing, big.NewRat(m.Interval, m.Refill)))) + at - now
}

// Reset implements Model.
func (m *TokenBucket) Reset(now int64) int64 { return m.Wait(now, m.Capacity) }

// floor rounds down.
func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // rounded down for a denominator above 0
}

// Clone implements Model. A fraction is not changed once a call has returned.
func (m *TokenBucket) Clone() Model {
	c := *m
	return &c
}
