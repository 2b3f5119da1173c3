package oracle

import (
	"context"
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

// ExpireCondition is a condition of an expiry.
type ExpireCondition string

// The conditions have the names of the Java calls.
const (
	ExpireIfSet     ExpireCondition = "expireIfSet"
	ExpireIfNotSet  ExpireCondition = "expireIfNotSet"
	ExpireIfGreater ExpireCondition = "expireIfGreater"
	ExpireIfLess    ExpireCondition = "expireIfLess"
)

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
	return call[bool](ctx, l, rate.request("trySetRate"))
}

// SetRate is setRate(type, rate, interval) or, with a KeepAlive, setRate(type, rate, interval,
// keepAlive).
func (l *Limiter) SetRate(ctx context.Context, rate Rate) error {
	return l.run(ctx, rate.request("setRate"))
}

// SetRateArgs is setRate(RateLimiterArgs). Release 4.6.1 has it, 4.3.1 has not.
func (l *Limiter) SetRateArgs(ctx context.Context, rate Rate, keepState bool) error {
	q := rate.request("setRateArgs")
	q.KeepState = keepState
	return l.run(ctx, q)
}

// UpdateRate is updateRate(RateLimiterArgs). Release 4.6.1 has it, 4.3.1 has not.
func (l *Limiter) UpdateRate(ctx context.Context, rate Rate, keepState bool) (bool, error) {
	q := rate.request("updateRate")
	q.KeepState = keepState
	return call[bool](ctx, l, q)
}

// Config is getConfig. It has no KeepAlive, since Redisson returns none.
func (l *Limiter) Config(ctx context.Context) (Rate, error) {
	got, err := call[struct {
		Type           RateType
		Rate           int64
		IntervalMillis int64
	}](ctx, l, request{Call: "getConfig"})
	return Rate{Type: got.Type, Permits: got.Rate, Interval: time.Duration(got.IntervalMillis) * time.Millisecond}, err
}

// TryAcquireOne is tryAcquire().
func (l *Limiter) TryAcquireOne(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "tryAcquire"})
}

// TryAcquire is tryAcquire(permits).
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	return call[bool](ctx, l, request{Call: "tryAcquire", Permits: &permits})
}

// TryAcquireOneWithin is tryAcquire(timeout, unit).
func (l *Limiter) TryAcquireOneWithin(ctx context.Context, timeout time.Duration) (bool, error) {
	return call[bool](ctx, l, request{Call: "tryAcquire", TimeoutMillis: millis(timeout)})
}

// TryAcquireWithin is tryAcquire(permits, timeout, unit).
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	return call[bool](ctx, l, request{Call: "tryAcquire", Permits: &permits, TimeoutMillis: millis(timeout)})
}

// AcquireOne is acquire().
func (l *Limiter) AcquireOne(ctx context.Context) error {
	return l.run(ctx, request{Call: "acquire"})
}

// Acquire is acquire(permits).
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	return l.run(ctx, request{Call: "acquire", Permits: &permits})
}

// Release is release(permits). Release 3.52.0 has it, 3.45.1 has not.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	return l.run(ctx, request{Call: "release", Permits: &permits})
}

// AvailablePermits is availablePermits.
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, request{Call: "availablePermits"})
}

// Expire is expire(timeToLive, unit).
func (l *Limiter) Expire(ctx context.Context, d time.Duration) (bool, error) {
	return call[bool](ctx, l, request{Call: "expire", Millis: millis(d)})
}

// ExpireAt is expireAt(timestamp).
func (l *Limiter) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return call[bool](ctx, l, request{Call: "expireAt", Millis: unixMillis(at)})
}

// ExpireIf is the call that the condition names, with a Duration. Release 3.20.1 has it, 3.16.8 has
// not.
func (l *Limiter) ExpireIf(ctx context.Context, condition ExpireCondition, d time.Duration) (bool, error) {
	return call[bool](ctx, l, request{Call: string(condition), Millis: millis(d)})
}

// ExpireAtIf is the call that the condition names, with an Instant, in the releases that have
// ExpireIf.
func (l *Limiter) ExpireAtIf(ctx context.Context, condition ExpireCondition, at time.Time) (bool, error) {
	return call[bool](ctx, l, request{Call: string(condition), Millis: unixMillis(at), Absolute: true})
}

// ClearExpire is clearExpire.
func (l *Limiter) ClearExpire(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "clearExpire"})
}

// RemainTimeToLive is remainTimeToLive: milliseconds, -1 without an expiry, or -2 without a
// limiter.
func (l *Limiter) RemainTimeToLive(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, request{Call: "remainTimeToLive"})
}

// ExpireTime is getExpireTime: Unix milliseconds, or -1 or -2 as RemainTimeToLive. Release 3.20.1
// has it, 3.16.8 has not.
func (l *Limiter) ExpireTime(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, request{Call: "getExpireTime"})
}

// Exists is isExists.
func (l *Limiter) Exists(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "isExists"})
}

// Delete is delete.
func (l *Limiter) Delete(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "delete"})
}

// Unlink is unlink.
func (l *Limiter) Unlink(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "unlink"})
}

// Rename is rename. In Java the object then has the new name; this Limiter keeps the old one.
func (l *Limiter) Rename(ctx context.Context, newName string) error {
	return l.run(ctx, request{Call: "rename", NewName: &newName})
}

// RenameNX is renamenx. In Java the object then has the new name; this Limiter keeps the old one.
func (l *Limiter) RenameNX(ctx context.Context, newName string) (bool, error) {
	return call[bool](ctx, l, request{Call: "renamenx", NewName: &newName})
}

// NameAfterRename returns the name of the object in Java after rename.
func (l *Limiter) NameAfterRename(ctx context.Context, newName string) (string, error) {
	return call[string](ctx, l, request{Call: "renamedObject", NewName: &newName, Replace: true})
}

// NameAfterRenameNX returns the name of the object in Java after renamenx.
func (l *Limiter) NameAfterRenameNX(ctx context.Context, newName string) (string, error) {
	return call[string](ctx, l, request{Call: "renamedObject", NewName: &newName})
}

// Copy is copy(destination). Release 3.38.1 has it, 3.34.1 has not.
func (l *Limiter) Copy(ctx context.Context, newName string) (bool, error) {
	return call[bool](ctx, l, request{Call: "copy", NewName: &newName})
}

// CopyAndReplace is copyAndReplace(destination), in the releases that have Copy.
func (l *Limiter) CopyAndReplace(ctx context.Context, newName string) (bool, error) {
	return call[bool](ctx, l, request{Call: "copy", NewName: &newName, Replace: true})
}

// Touch is touch.
func (l *Limiter) Touch(ctx context.Context) (bool, error) {
	return call[bool](ctx, l, request{Call: "touch"})
}

// SizeInMemory is sizeInMemory, in bytes.
func (l *Limiter) SizeInMemory(ctx context.Context) (int64, error) {
	return call[int64](ctx, l, request{Call: "sizeInMemory"})
}

func (r Rate) request(call string) request {
	q := request{Call: call, Type: r.Type, Rate: &r.Permits, IntervalMillis: millis(r.Interval)}
	if q.Type == "" {
		q.Type = Overall
	}
	if r.KeepAlive != 0 {
		q.KeepAlive = millis(r.KeepAlive)
	}
	return q
}

func (l *Limiter) run(ctx context.Context, q request) error {
	q.Limiter = l.name
	return l.r.call(ctx, q, nil)
}

func call[T any](ctx context.Context, l *Limiter, q request) (T, error) {
	var result T
	q.Limiter = l.name
	err := l.r.call(ctx, q, &result)
	return result, err
}

func millis(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}

func unixMillis(t time.Time) *int64 {
	ms := t.UnixMilli()
	return &ms
}
