package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TrySetRate sets the rate of a limiter that has none and says whether it did: trySetRate. Where the limiter has a
// rate already nothing changes. An invalid rate is refused with [ErrInvalidRate].
func (l *Limiter) TrySetRate(ctx context.Context, rate Rate) (bool, error) {
	if err := rate.validate(); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	set, err := l.askInt(ctx, l.keys[:1], trySetRateScript, l.keys[:], rate.fields()...)
	return set == 1, err
}

// SetRateOption is a setting of [Limiter.SetRate] and [Limiter.UpdateRate].
type SetRateOption func(*setRate)

type setRate struct{ keepState bool }

// KeepState keeps the permits that are taken: keepState() of Redisson's rate limiter arguments. Those that lie within
// the new interval count against the new rate; where they are more than it, nothing is granted until enough of them
// have left the window. Without it the limiter starts anew, with all permits free. It has no effect where the type
// of the rate changes.
func KeepState() SetRateOption {
	return func(s *setRate) { s.keepState = true }
}

// SetRate sets the rate, whether the limiter has one or not: setRate. All permits are free afterwards, for PerClient
// those of this client, unless [KeepState] is given. An expiry that Expire set stays; one that came from an old
// KeepAlive goes. Whatever else the limiter's configuration held is replaced, so that SetRate repairs it.
func (l *Limiter) SetRate(ctx context.Context, rate Rate, opts ...SetRateOption) error {
	_, err := l.setRate(ctx, rate, "", opts)
	return err
}

// UpdateRate is [Limiter.SetRate] for a limiter that exists, and says whether it does: updateRate.
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
	args := append([]string{l.client.nowText()}, rate.fields()...)
	done, err := l.askInt(ctx, l.keys[:1], setRateScript, l.keys[:], append(args, letters)...)
	return done == 1, err
}

// fields gives a rate as the configuration hash holds it.
func (r Rate) fields() []string {
	return []string{
		strconv.FormatInt(r.Permits, 10),
		strconv.FormatInt(r.Interval.Milliseconds(), 10),
		strconv.Itoa(int(r.Type)),
		strconv.FormatInt(r.KeepAlive.Milliseconds(), 10),
	}
}

// Config reads the rate: getConfig(). A limiter without one is [ErrNotInitialized], where Redisson gives a rate of 0.
// A configuration that is no limiter's is a [*StateError].
func (l *Limiter) Config(ctx context.Context) (Rate, error) {
	if err := l.check(ctx); err != nil {
		return Rate{}, err
	}
	return engine.Detached(ctx, func(ctx context.Context) (Rate, error) {
		read := l.client.redis.B().Arbitrary("HMGET").Keys(l.keys[configKey]).Args("rate", "interval", "type", "keepAliveTime").Build()
		fields, err := l.client.redis.Do(ctx, read).ToArray()
		if err != nil {
			return Rate{}, l.explain(ctx, err)
		}
		return l.parseConfig(fields)
	})
}

// parseConfig makes a Rate of the four fields of the configuration hash. What is no number is refused; an interval or
// keep-alive longer than a Duration is cut.
func (l *Limiter) parseConfig(fields []rueidis.RedisMessage) (Rate, error) {
	for i := range 3 {
		if i >= len(fields) || fields[i].IsNil() {
			return Rate{}, fmt.Errorf("%w: %q has no rate, set one with TrySetRate or SetRate", ErrNotInitialized, l.calls.Name)
		}
	}
	var numbers [4]int64
	for i, name := range []string{"rate", "interval", "type", "keepAliveTime"} {
		if i >= len(fields) || fields[i].IsNil() {
			continue // releases before 3.38 do not write keepAliveTime
		}
		text, err := fields[i].ToString()
		if err != nil {
			return Rate{}, l.unexpected(fields[i])
		}
		number, ok := parseCount(text)
		switch name {
		case "rate":
			ok = ok && (number < maxPermits || text == strconv.FormatInt(maxPermits, 10))
		case "type":
			ok = text == "0" || text == "1"
		case "keepAliveTime":
			ok = ok && len(text) < 16 && (text == "0" || text[0] != '0')
		}
		if !ok {
			return Rate{}, &StateError{Key: l.keys[configKey], Field: name, Value: text}
		}
		numbers[i] = number
	}
	return Rate{Type: RateType(numbers[2]), Permits: numbers[0], Interval: millis(numbers[1]), KeepAlive: millis(numbers[3])}, nil
}

// parseCount reads a number of the configuration: decimal digits and nothing else, as the script demands. One above
// the largest int64 counts as that.
func parseCount(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange)
}
