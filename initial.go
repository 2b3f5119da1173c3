package rratelimiter

import (
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// LimiterOption is a setting of a [Limiter], for [Client.Limiter].
type LimiterOption func(*Limiter)

// InitialRate sets the rate that a limiter begins with. A call that finds no rate in Redis sets
// this one, as [Limiter.TrySetRate] does, and goes on: then it takes one more round trip. So a
// limiter that has expired by its KeepAlive, or was lost with the data of Redis, begins again.
//
// Open a limiter with the same InitialRate everywhere in a program. Limiters of one name and Client
// share waiters and prefetches only then.
//
// RedisCall of an [Observer] reports the calls for permits that set it.
//
// InitialRate does not change the rate of a limiter that has one: call [Limiter.SetRate] with
// [KeepState] for that.
//
// The calls that need a rate are those that take permits, wait for them, release or count them,
// alone and in a Join of package limit. The others, such as [Limiter.Config], report what is in
// Redis. With an invalid rate every call fails with [ErrInvalidRate].
func InitialRate(rate Rate) LimiterOption {
	err, args := rate.validate(), rate.fields()
	return func(l *Limiter) {
		if l.err == nil {
			l.err = err
		}
		l.protocol.initial = []redisx.Call{{Script: trySetRateScript, Keys: l.protocol.keys[:], Args: args}}
	}
}

// notInitialized returns the error of a call that needs a rate.
func (p *protocol) notInitialized() error {
	return fmt.Errorf("%w: %q has no rate, open it with InitialRate or call SetRate", ErrNotInitialized, p.name)
}
