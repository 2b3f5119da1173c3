package oracle

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// RateType is the enum of the same name, with Java's spelling.
type RateType string

// The rate types. The zero value of RateType counts as Overall.
const (
	Overall   RateType = "OVERALL"
	PerClient RateType = "PER_CLIENT"
)

// Rate is a limiter's configuration. Durations are rounded down to milliseconds.
//
// With a KeepAlive of 0, the Java call has no keepAlive argument; SetRateArgs and UpdateRate leave
// it unset. Another KeepAlive returns ErrUnsupported in 3.34.1 and older.
type Rate struct {
	Type      RateType
	Permits   int64
	Interval  time.Duration
	KeepAlive time.Duration
}

// Limiter is an RRateLimiter. Its methods are safe for concurrent use; each makes the Java call of
// nearly the same name.
//
// An exception in Java is an *Error. A method returns when its context ends, but the call continues
// in Java. Only Close ends an acquire that waits.
type Limiter struct {
	r    *Redisson
	name string
}

// Name returns the name of the limiter.
func (l *Limiter) Name() string { return l.name }

// TrySetRate is trySetRate.
func (l *Limiter) TrySetRate(ctx context.Context, rate Rate) (bool, error) {
	return call[bool](ctx, l, "trySetRate", rate.args()...)
}

// SetRate is setRate(type, rate, interval) or, with a KeepAlive, setRate(type, rate, interval,
// keepAlive).
func (l *Limiter) SetRate(ctx context.Context, rate Rate) error {
	return l.run(ctx, "setRate", rate.args()...)
}

// SetRateArgs is setRate(RateLimiterArgs). Release 4.6.1 has it, 4.3.1 has not.
func (l *Limiter) SetRateArgs(ctx context.Context, rate Rate, keepState bool) error {
	return l.run(ctx, "setRate", rate.limiterArgs(keepState))
}

// UpdateRate is updateRate(RateLimiterArgs). Release 4.6.1 has it, 4.3.1 has not.
func (l *Limiter) UpdateRate(ctx context.Context, rate Rate, keepState bool) (bool, error) {
	return call[bool](ctx, l, "updateRate", rate.limiterArgs(keepState))
}

// TryAcquire is tryAcquire(permits).
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	return call[bool](ctx, l, "tryAcquire", permits)
}

// TryAcquireWithin is tryAcquire(permits, timeout, unit).
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	return call[bool](ctx, l, "tryAcquire", permits, timeout.Milliseconds(), TimeUnit)
}

// Acquire is acquire(permits).
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	return l.run(ctx, "acquire", permits)
}

// Release is release(permits). Release 3.52.0 has it, 3.45.1 has not.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	return l.run(ctx, "release", permits)
}

// AvailablePermits is availablePermits.
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, "availablePermits")
}

// NameAfter returns the name of the object in Java after rename or renamenx.
func (l *Limiter) NameAfter(ctx context.Context, rename, newName string) (string, error) {
	return send[string](ctx, l, request{Call: rename, Args: []argument{argumentOf(newName)}, NameAfter: true})
}

// SizeInMemory is sizeInMemory, in bytes.
func (l *Limiter) SizeInMemory(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, "sizeInMemory")
}

// Call makes any call of Redisson by its name. The result is a bool, a float64, nil, or the fields of
// a configuration.
func (l *Limiter) Call(ctx context.Context, method string, args ...any) (any, error) {
	return call[any](ctx, l, method, args...)
}

// args returns the arguments of trySetRate and setRate.
func (r Rate) args() []any {
	if r.KeepAlive != 0 {
		return []any{cmp.Or(r.Type, Overall), r.Permits, r.Interval, r.KeepAlive}
	}
	return []any{cmp.Or(r.Type, Overall), r.Permits, r.Interval.Milliseconds(), unit("RateIntervalUnit")}
}

// limiterArgs returns a RateLimiterArgs.
func (r Rate) limiterArgs(keepState bool) argument {
	return argument{"RateLimiterArgs", fmt.Sprintf("%s %d %d %d %t", cmp.Or(r.Type, Overall), r.Permits,
		r.Interval.Milliseconds(), r.KeepAlive.Milliseconds(), keepState)}
}

func (l *Limiter) run(ctx context.Context, method string, args ...any) error {
	_, err := call[any](ctx, l, method, args...)
	return err
}

func call[T any](ctx context.Context, l *Limiter, method string, args ...any) (T, error) {
	q := request{Call: method}
	for _, arg := range args {
		q.Args = append(q.Args, argumentOf(arg))
	}
	return send[T](ctx, l, q)
}

func send[T any](ctx context.Context, l *Limiter, q request) (result T, err error) {
	q.Limiter = l.name
	err = l.r.call(ctx, q, &result)
	return result, err
}
