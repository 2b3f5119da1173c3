package policymodel

import (
	"math/big"
	"slices"
)

// TokenBucket is the model of limit.TokenBucket and, with Leaky, of limit.LeakyBucket, whose level
// is the number of missing tokens. Its Interval is in microseconds. The tokens are a fraction, so
// that nothing is rounded.
type TokenBucket struct {
	Capacity, Refill, Interval int64
	Leaky                      bool

	last     int64    // when tokens changed
	tokens   *big.Rat // nil: full
	end      *big.Rat // when the newest reservation is refilled; nil: none waits
	epoch    int      // how often the bucket was full
	refunded *big.Rat // permits that refunds have returned since
	made     int      // reservations ever
	line     []place  // of the reservations since, in their order
}

// place is a reservation that waited when it was made. If it is cancelled, it stays, unless it is the
// last.
type place struct {
	id      int
	permits int64
}

// behind returns the permits of all places after one, and whether that is the last place.
func behind(line []place, id int) (permits int64, last bool) {
	at := slices.IndexFunc(line, func(p place) bool { return p.id == id })
	if at < 0 {
		return 0, false // it was cancelled
	}
	for _, p := range line[at+1:] {
		permits += p.permits
	}
	return permits, at == len(line)-1
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
	m.settle(now)
	if m.missing().Sign() == 0 {
		m.epoch++
		m.refunded, m.end, m.line = new(big.Rat), nil, nil
	}
	m.tokens.Sub(m.tokens, new(big.Rat).SetInt64(n))
}

// Release implements Model.
func (m *TokenBucket) Release(now, n int64) {
	before := *m
	m.settle(now)
	back := new(big.Rat).SetInt64(n)
	if m.end != nil { // reservations that wait keep their times
		waits := new(big.Rat).Mul(m.until(m.end), big.NewRat(m.Refill, m.Interval))
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
func (m *TokenBucket) settle(now int64) {
	m.tokens, m.last = m.at(now)
	if m.missing().Sign() == 0 || m.end != nil && m.ahead().Cmp(m.until(m.end)) >= 0 {
		m.end = nil
	}
}

func (m *TokenBucket) restore(n *big.Rat) {
	if m.tokens.Add(m.tokens, n).Cmp(new(big.Rat).SetInt64(m.Capacity)) >= 0 {
		m.tokens, m.end = nil, nil
		return
	}
	m.refunded = new(big.Rat).Add(m.refunded, n)
}

func (m *TokenBucket) missing() *big.Rat {
	return new(big.Rat).Sub(new(big.Rat).SetInt64(m.Capacity), m.tokens)
}

// per is the time for so many permits, in microseconds.
func (m *TokenBucket) per(permits *big.Rat) *big.Rat {
	return new(big.Rat).Mul(permits, big.NewRat(m.Interval, m.Refill))
}

// until is the time from that of the tokens on.
func (m *TokenBucket) until(at *big.Rat) *big.Rat {
	return new(big.Rat).Sub(at, new(big.Rat).SetInt64(m.last))
}

// ahead is the longest duration between the time of a reservation and its refill.
func (m *TokenBucket) ahead() *big.Rat {
	if m.Leaky {
		return new(big.Rat)
	}
	return m.per(new(big.Rat).SetInt64(m.Capacity))
}

// bucketReservation is a reservation of a TokenBucket. Its end is the time of its refill.
type bucketReservation struct {
	permits  *big.Rat
	end      *big.Rat
	at       int64
	refunded *big.Rat
	epoch    int
	id       int // of its place; 0 if it has not waited
}

// Reserve implements Reserver.
func (m *TokenBucket) Reserve(now, n int64) (delay int64, reservation any) {
	m.settle(now)
	due := m.per(m.missing())
	m.Charge(now, n)
	made := bucketReservation{permits: new(big.Rat).SetInt64(n), end: m.per(m.missing()), at: m.last, refunded: m.refunded,
		epoch: m.epoch}
	if !m.Leaky {
		due.Sub(made.end, m.ahead())
	}
	if due.Sign() > 0 {
		delay = m.last - now - floor(new(big.Rat).Neg(due))
	}
	made.end.Add(made.end, new(big.Rat).SetInt64(m.last))
	if m.ahead().Cmp(m.until(made.end)) < 0 {
		m.end = made.end
		m.made++
		made.id = m.made
		m.line = append(slices.Clip(m.line), place{made.id, n}) // clones share the line
	}
	return delay, made
}

// Cancel implements Reserver.
func (m *TokenBucket) Cancel(now int64, reservation any) {
	made, before := reservation.(bucketReservation), *m
	m.settle(now)
	if m.epoch != made.epoch || m.missing().Sign() == 0 {
		*m = before // another bucket
		return
	}
	own, waits := m.until(made.end), m.until(made.end).Cmp(m.ahead()) > 0
	back, most, last := own, m.per(made.permits), false
	if !waits {
		back = m.missingOf(made)
	}
	if made.id > 0 {
		var later int64
		if later, last = behind(m.line, made.id); waits || m.end != nil {
			most.Sub(most, m.per(new(big.Rat).SetInt64(later)))
		}
	} else if m.end != nil { // reservations that wait keep their times
		if free := new(big.Rat).Sub(m.per(m.missing()), m.until(m.end)); free.Cmp(most) < 0 {
			most = free
		}
	}
	for _, most := range []*big.Rat{most, m.per(m.missing())} {
		if back.Cmp(most) > 0 {
			back = most
		}
	}
	if back.Sign() <= 0 {
		*m = before // nothing is written
		return
	}
	if last {
		m.line = m.line[:len(m.line)-1]
	}
	if last && waits {
		m.end = new(big.Rat).Sub(made.end, m.per(made.permits))
	}
	m.restore(new(big.Rat).Quo(back, m.per(big.NewRat(1, 1))))
}

// missingOf returns the amount that is missing because of a reservation that does not wait, as the
// time of its refill. The bucket's state bounds it.
func (m *TokenBucket) missingOf(made bucketReservation) *big.Rat {
	most := new(big.Rat).Sub(m.per(made.permits), new(big.Rat).SetInt64(m.last-made.at))
	own := new(big.Rat).Sub(m.until(made.end), m.per(new(big.Rat).Sub(m.refunded, made.refunded)))
	if most.Cmp(own) < 0 {
		most = own
	}
	return most
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
