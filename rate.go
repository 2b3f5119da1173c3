package rratelimiter

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TrySetRate sets the rate of a limiter that has none, and reports whether it did: trySetRate. If
// the limiter has a rate, nothing changes, even if the two rates differ: a program whose next
// release has another rate calls SetRate with [KeepState]. See [InitialRate] for a limiter that can
// expire or be lost. An invalid rate is [ErrInvalidRate].
func (l *Limiter) TrySetRate(ctx context.Context, rate Rate) (bool, error) {
	if err := rate.validate(); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	set, err := l.protocol.runInt(ctx, l.protocol.keys[:1], trySetRateScript, l.protocol.keys[:], rate.fields()...)
	return set == 1, err
}

// SetRateOption is a setting of [Limiter.SetRate] and [Limiter.UpdateRate].
type SetRateOption func(*setRate)

type setRate struct{ keepState bool }

// KeepState keeps the grants: keepState() of Redisson's RateLimiterArgs. Grants within the new
// interval count against the new rate. If they exceed it, no permit is granted until enough of them
// have expired. Without KeepState all permits are free. It has no effect if the type of the rate
// changes.
func KeepState() SetRateOption {
	return func(s *setRate) { s.keepState = true }
}

// SetRate sets the rate of a limiter, whether it has one or not: setRate. After that all permits
// are free, for PerClient those of this client, unless [KeepState] is given. An expiry that Expire
// set stays; one of an earlier KeepAlive is removed. SetRate replaces invalid fields and state, so
// it repairs a limiter.
func (l *Limiter) SetRate(ctx context.Context, rate Rate, opts ...SetRateOption) error {
	_, err := l.setRate(ctx, rate, "", opts)
	return err
}

// UpdateRate is [Limiter.SetRate] if the limiter exists, and reports whether it does: updateRate.
func (l *Limiter) UpdateRate(ctx context.Context, rate Rate, opts ...SetRateOption) (bool, error) {
	return l.setRate(ctx, rate, "e", opts)
}

func (l *Limiter) setRate(ctx context.Context, rate Rate, letters string, opts []SetRateOption) (bool, error) {
	if err := rate.validate(); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	var set setRate
	for _, opt := range opts {
		if opt != nil {
			opt(&set)
		}
	}
	if set.keepState {
		letters += "k"
	}
	args := append([]string{l.protocol.client.nowText()}, rate.fields()...)
	done, err := l.protocol.runInt(ctx, l.protocol.keys[:1], setRateScript, l.protocol.keys[:], append(args, letters)...)
	return done == 1, err
}

// fields returns the values of inside.RateFields.
func (r Rate) fields() []string {
	return []string{
		strconv.FormatInt(r.Permits, 10),
		strconv.FormatInt(r.Interval.Milliseconds(), 10),
		strconv.Itoa(int(r.Type)),
		strconv.FormatInt(r.KeepAlive.Milliseconds(), 10),
	}
}

// Config returns the rate: getConfig(). A limiter without a rate is [ErrNotInitialized], where
// Redisson returns a rate of 0. An invalid configuration is a [*StateError].
func (l *Limiter) Config(ctx context.Context) (Rate, error) {
	if err := l.check(ctx); err != nil {
		return Rate{}, err
	}
	return engine.Detach(ctx, func(ctx context.Context) (Rate, error) {
		hash := l.protocol.client.redis.B().Arbitrary("HMGET").Keys(l.protocol.keys[configKey])
		read := hash.Args(inside.RateFields...).Build()
		reply, err := redisx.Do(ctx, l.protocol.client.redis, read)
		var fields []rueidis.RedisMessage
		if err == nil {
			fields, err = reply.ToArray()
		}
		if err != nil {
			return Rate{}, l.protocol.Explain(ctx, err)
		}
		return l.parseConfig(fields)
	})
}

// parseConfig parses the four fields of the configuration hash. An interval or keep-alive above the
// longest Duration becomes that.
func (l *Limiter) parseConfig(fields []rueidis.RedisMessage) (Rate, error) {
	for i := range 3 {
		if i >= len(fields) || fields[i].IsNil() {
			return Rate{}, l.protocol.notInitialized()
		}
	}
	var numbers [4]int64
	for i, name := range inside.RateFields {
		if i >= len(fields) || fields[i].IsNil() {
			continue // releases before 3.38 do not write keepAliveTime
		}
		text, err := fields[i].ToString()
		if err != nil {
			return Rate{}, l.protocol.unexpected(&fields[i])
		}
		var ok bool
		if numbers[i], ok = inside.ReadRateField(i, text); !ok {
			return Rate{}, &StateError{Key: l.protocol.keys[configKey], Field: name, Value: text}
		}
	}
	return Rate{Type: RateType(numbers[2]), Permits: numbers[0], Interval: millis(numbers[1]),
		KeepAlive: millis(numbers[3])}, nil
}
