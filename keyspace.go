package rratelimiter

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// The calls of this file are those of Redisson's RObject and RExpirable. Calls that write, Touch and
// SizeInMemory act on the five keys that this client can name, and not on the PerClient state of
// other clients. The others read the configuration.

// Exists reports whether the limiter has a configuration: isExists().
func (l *Limiter) Exists(ctx context.Context) (bool, error) {
	n, err := l.read(ctx, "EXISTS", l.protocol.keys[configKey])
	return n > 0, err
}

// Delete removes the limiter, and reports whether any of its keys existed: delete(). It does not
// block the server, however large the limiter is.
func (l *Limiter) Delete(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := engine.ChangeLimiters(ctx, l.protocol.client.engine, l.protocol.keys[:1],
		l.run(l.protocol.client.redis.B().Unlink().Key(l.protocol.keys[:]...).Build()))
	return n > 0, err
}

// Unlink is [Limiter.Delete]: unlink().
func (l *Limiter) Unlink(ctx context.Context) (bool, error) { return l.Delete(ctx) }

// Touch marks the limiter as used, for servers that evict keys, and reports whether any of its keys
// exists: touch().
func (l *Limiter) Touch(ctx context.Context) (bool, error) {
	n, err := l.read(ctx, "TOUCH", l.protocol.keys[:]...)
	return n > 0, err
}

// read runs a command that returns a number. It is built so that rueidis does not repeat it: reads
// are repeated for as long as an outage lasts, also after their caller has left.
func (l *Limiter) read(ctx context.Context, command string, keys ...string) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	return engine.Detach(ctx, l.run(l.protocol.client.redis.B().Arbitrary(command).Keys(keys...).Build()))
}

func (l *Limiter) run(command rueidis.Completed) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		message, err := redisx.Do(ctx, l.protocol.client.redis, command)
		if err == nil {
			n, err = message.ToInt64()
		}
		if err != nil {
			return 0, l.protocol.Explain(ctx, err)
		}
		return n, nil
	}
}

// SizeInMemory returns the bytes that all keys of the limiter take in Redis: sizeInMemory(). It is
// Redis's estimate.
func (l *Limiter) SizeInMemory(ctx context.Context) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	return engine.Detach(ctx, func(ctx context.Context) (sum int64, err error) {
		for attempt := 0; attempt == 0 || redisx.Again(ctx, err, attempt); attempt++ {
			sum, err = l.protocol.memoryUsage(ctx)
		}
		if err != nil {
			return 0, l.protocol.Explain(ctx, err)
		}
		return sum, nil
	})
}

// memoryUsage returns the bytes of all keys of the limiter.
func (p *protocol) memoryUsage(ctx context.Context) (sum int64, err error) {
	commands := make(rueidis.Commands, len(p.keys))
	for i, key := range p.keys {
		commands[i] = p.client.redis.B().Arbitrary("MEMORY", "USAGE").Keys(key).Build()
	}
	for _, result := range redisx.DoMulti(ctx, p.client.redis, commands) {
		bytes, err := result.ToInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// ExpireOption is a condition of [Limiter.Expire] and [Limiter.ExpireAt]. Conditions need Redis
// 7.0. The zero value is no condition.
type ExpireOption uint8

// The conditions. Redis checks each key separately.
const (
	IfSet     ExpireOption = iota + 1 // only keys that have an expiry: expireIfSet
	IfNotSet                          // only keys that have none: expireIfNotSet
	IfGreater                         // only if the new expiry is later than the present one, or than never: expireIfGreater
	IfLess                            // only if the new expiry is earlier than the present one, or than never: expireIfLess
)

// expireArgs returns the arguments of PEXPIRE and PEXPIREAT for the conditions.
func expireArgs(opts []ExpireOption) ([]string, error) {
	words := map[ExpireOption]string{IfSet: "XX", IfNotSet: "NX", IfGreater: "GT", IfLess: "LT"}
	var args []string
	var given [IfLess + 1]bool
	for _, opt := range opts {
		if opt > IfLess {
			return nil, fmt.Errorf("%w: ExpireOption(%d) is none of IfSet, IfNotSet, IfGreater and IfLess", ErrInvalidOption,
				opt)
		}
		if opt > 0 && !given[opt] {
			given[opt] = true
			args = append(args, words[opt])
		}
	}
	if given[IfNotSet] && len(args) > 1 || given[IfGreater] && given[IfLess] {
		return nil, fmt.Errorf("%w: of IfNotSet, IfGreater and IfLess give one; IfSet goes with the last two",
			ErrInvalidOption)
	}
	return args, nil
}

// Expire deletes the limiter after d, and reports whether that changed any key: expire(Duration). d
// is rounded up to milliseconds; 0 and below delete at once. If the rate has a KeepAlive, every
// call sets its own expiry again.
func (l *Limiter) Expire(ctx context.Context, d time.Duration, opts ...ExpireOption) (bool, error) {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return l.expire(ctx, "PEXPIRE", ms, opts)
}

// ExpireAt deletes the limiter at a time, and reports whether that changed any key:
// expireAt(Instant). The server's clock decides; a time in the past deletes at once.
func (l *Limiter) ExpireAt(ctx context.Context, t time.Time, opts ...ExpireOption) (bool, error) {
	ms := t.UnixMilli()
	if seconds := min(max(0, t.Unix()), math.MaxInt64/1000-1); seconds != t.Unix() { // ms may have overflowed
		ms = 1000 * seconds
	}
	return l.expire(ctx, "PEXPIREAT", ms, opts)
}

func (l *Limiter) expire(ctx context.Context, command string, ms int64, opts []ExpireOption) (bool, error) {
	conditions, err := expireArgs(opts)
	if err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.protocol.runInt(ctx, l.protocol.keys[:1], eachScript, l.protocol.keys[:],
		append([]string{command, strconv.FormatInt(ms, 10)}, conditions...)...)
	if err == nil && n == replyUnsupported {
		err = fmt.Errorf("%w: Expire and ExpireAt of %q with a condition need Redis 7.0", ErrUnsupported, l.protocol.name)
	}
	return n > 0, err
}

// ClearExpire removes the expiry, and reports whether there was one: clearExpire().
func (l *Limiter) ClearExpire(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.protocol.runInt(ctx, l.protocol.keys[:1], eachScript, l.protocol.keys[:], "PERSIST")
	return n > 0, err
}

// Results of [Limiter.RemainTimeToLive] that are not a duration, as in Redisson and Redis.
const (
	NeverExpires time.Duration = -1 // the limiter has no expiry
	DoesNotExist time.Duration = -2 // the limiter does not exist
)

// RemainTimeToLive returns the time until the limiter expires, [NeverExpires] or [DoesNotExist]:
// remainTimeToLive().
func (l *Limiter) RemainTimeToLive(ctx context.Context) (time.Duration, error) {
	ms, err := l.read(ctx, "PTTL", l.protocol.keys[configKey])
	if err != nil || ms < 0 {
		return time.Duration(ms), err
	}
	return millis(ms), nil
}

// ExpireTime returns the time at which the limiter expires: getExpireTime(). It is the zero Time if
// the limiter never expires or does not exist; RemainTimeToLive distinguishes the two.
func (l *Limiter) ExpireTime(ctx context.Context) (time.Time, error) {
	if err := l.check(ctx); err != nil {
		return time.Time{}, err
	}
	ms, err := l.protocol.runInt(ctx, nil, expireTimeScript, l.protocol.keys[:1])
	if err != nil || ms < 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}

// Rename moves the limiter with all its state to a new name: rename. It replaces a limiter of that
// name. The Limiter itself keeps its old name, unlike Redisson's object. Permits that another
// process has prefetched under the old name cannot be released: they return when they expire, an
// interval after the prefetch.
//
// The error is [ErrNotInitialized] if the limiter has no configuration. On a cluster it is
// [ErrCrossSlot] if the names are in different slots. It is [ErrInvalidName] if the names share
// a key, as "x" does with "{x}" and with "{x}:value".
func (l *Limiter) Rename(ctx context.Context, newName string) error {
	_, err := l.move(ctx, "RENAME", newName, true)
	return err
}

// RenameNX is [Limiter.Rename] if no limiter of the new name exists, and reports whether it
// renamed: renamenx.
func (l *Limiter) RenameNX(ctx context.Context, newName string) (bool, error) {
	return l.move(ctx, "RENAME", newName, false)
}

// CopyOption is a setting of [Limiter.Copy].
type CopyOption func(*copyLimiter)

type copyLimiter struct{ replace bool }

// Replace makes Copy replace a limiter of the new name: copyAndReplace.
func Replace() CopyOption {
	return func(c *copyLimiter) { c.replace = true }
}

// Copy creates a second limiter with the same rate and state, and reports whether it did: copy. If
// a limiter of the new name exists, it needs [Replace]. Copy needs Redis 6.2. It blocks the server
// for a time proportional to the state. Errors are those of Rename.
func (l *Limiter) Copy(ctx context.Context, newName string, opts ...CopyOption) (bool, error) {
	var settings copyLimiter
	for _, opt := range opts {
		if opt != nil {
			opt(&settings)
		}
	}
	return l.move(ctx, "COPY", newName, settings.replace)
}

func (l *Limiter) move(ctx context.Context, command, newName string, replace bool) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	target, err := l.protocol.client.open(newName)
	if err != nil {
		return false, err
	}
	isOwn := func(key string) bool { return slices.Contains(l.protocol.keys[:], key) }
	if target[configKey] != l.protocol.keys[configKey] && slices.ContainsFunc(target[:], isOwn) {
		return false, fmt.Errorf("%w: %q and %q share a key of their state: choose another name", ErrInvalidName,
			l.protocol.name, newName)
	}
	both := slices.Concat(l.protocol.keys[:], target[:])
	if l.protocol.client.engine.Cluster() {
		if err := checkSlots(both...); err != nil {
			return false, err
		}
	}
	flag := "0"
	if replace {
		flag = "1"
	}
	moved, err := l.protocol.runInt(ctx, []string{l.protocol.keys[configKey], target[configKey]}, moveScript, both,
		command, flag)
	switch {
	case err != nil:
	case moved == replyUnsupported:
		err = fmt.Errorf("%w: Copy of %q needs Redis 6.2", ErrUnsupported, l.protocol.name)
	case moved < 0:
		err = fmt.Errorf("%w: there is no limiter %q to rename or copy", ErrNotInitialized, l.protocol.name)
	}
	return moved == 1, err
}
