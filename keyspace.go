package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// The calls of this file act on a limiter's keys as a whole: Redisson's RObject and RExpirable. All five keys that
// this client can name take part; those of other clients of a PerClient limiter cannot be known.

// Exists says whether the limiter has a configuration: isExists().
func (l *Limiter) Exists(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.do(ctx, l.client.redis.B().Arbitrary("EXISTS").Keys(l.keys[configKey]).Build())
	return n > 0, err
}

// Delete removes the limiter and says whether there was anything of it: delete(). However much it holds, the server
// does not stop for it.
func (l *Limiter) Delete(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := engine.Changing(ctx, l.client.engine, l.keys[:1], l.run(l.client.redis.B().Unlink().Key(l.keys[:]...).Build()))
	return n > 0, err
}

// Unlink is [Limiter.Delete], which never makes the server wait either: unlink().
func (l *Limiter) Unlink(ctx context.Context) (bool, error) { return l.Delete(ctx) }

// Touch tells Redis that the limiter was used, for servers that evict, and says whether there is anything of it: touch().
func (l *Limiter) Touch(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.do(ctx, l.client.redis.B().Arbitrary("TOUCH").Keys(l.keys[:]...).Build())
	return n > 0, err
}

// do runs a command that reads a number. It is one that rueidis does not send again: the reads of rueidis' own builders it
// retries for as long as an outage lasts, when nobody may be left to tell it to stop.
func (l *Limiter) do(ctx context.Context, command rueidis.Completed) (int64, error) {
	return engine.Detached(ctx, l.run(command))
}

func (l *Limiter) run(command rueidis.Completed) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		n, err := l.client.redis.Do(ctx, command).ToInt64()
		if err != nil {
			err = l.explain(ctx, err)
		}
		return n, err
	}
}

// SizeInMemory is what the limiter takes in Redis, in bytes, all keys together: sizeInMemory(). Redis estimates it.
func (l *Limiter) SizeInMemory(ctx context.Context) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	return engine.Detached(ctx, func(ctx context.Context) (int64, error) {
		commands := make(rueidis.Commands, len(l.keys))
		for i, key := range l.keys {
			commands[i] = l.client.redis.B().Arbitrary("MEMORY", "USAGE").Keys(key).Build()
		}
		var sum int64
		for _, result := range l.client.redis.DoMulti(ctx, commands...) {
			bytes, err := result.ToInt64()
			if err != nil && !rueidis.IsRedisNil(err) {
				return 0, l.explain(ctx, err)
			}
			sum += bytes
		}
		return sum, nil
	})
}

// ExpireOption is a condition of [Limiter.Expire] and [Limiter.ExpireAt]. Those with one need Redis 7.0. The zero
// value is no condition.
type ExpireOption uint8

// The conditions. Redis looks at each key by itself.
const (
	IfSet     ExpireOption = iota + 1 // only keys that have an expiry: expireIfSet
	IfNotSet                          // only keys that have none: expireIfNotSet
	IfGreater                         // only where the new expiry is later; no expiry counts as never: expireIfGreater
	IfLess                            // only where the new expiry is earlier; no expiry counts as never: expireIfLess
)

// expireArgs gives the words that stand for conditions behind PEXPIRE and PEXPIREAT.
func expireArgs(opts []ExpireOption) ([]string, error) {
	words := map[ExpireOption]string{IfSet: "XX", IfNotSet: "NX", IfGreater: "GT", IfLess: "LT"}
	var args []string
	var given [IfLess + 1]bool
	for _, opt := range opts {
		if opt > IfLess {
			return nil, fmt.Errorf("%w: ExpireOption(%d) is none of IfSet, IfNotSet, IfGreater and IfLess", ErrInvalidOption, opt)
		}
		if opt > 0 && !given[opt] {
			given[opt] = true
			args = append(args, words[opt])
		}
	}
	if given[IfNotSet] && len(args) > 1 || given[IfGreater] && given[IfLess] {
		return nil, fmt.Errorf("%w: of IfNotSet, IfGreater and IfLess give one; IfSet goes with the last two", ErrInvalidOption)
	}
	return args, nil
}

// Expire deletes the limiter once d has passed, and says whether that changed anything: expire(Duration). It is
// rounded up to milliseconds; 0 and below delete at once. A KeepAlive of the rate sets its own expiry at every call.
func (l *Limiter) Expire(ctx context.Context, d time.Duration, opts ...ExpireOption) (bool, error) {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return l.expire(ctx, "PEXPIRE", ms, opts)
}

// ExpireAt deletes the limiter at a moment, and says whether that changed anything: expireAt(Instant). The server's
// clock decides; a moment in the past deletes at once.
func (l *Limiter) ExpireAt(ctx context.Context, t time.Time, opts ...ExpireOption) (bool, error) {
	return l.expire(ctx, "PEXPIREAT", t.UnixMilli(), opts)
}

func (l *Limiter) expire(ctx context.Context, command string, ms int64, opts []ExpireOption) (bool, error) {
	conditions, err := expireArgs(opts)
	if err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.askInt(ctx, l.keys[:1], eachScript, l.keys[:], append([]string{command, strconv.FormatInt(ms, 10)}, conditions...)...)
	if err == nil && n == replyUnsupported {
		err = fmt.Errorf("%w: Expire and ExpireAt of %q with a condition need Redis 7.0", ErrUnsupported, l.calls.Name)
	}
	return n > 0, err
}

// ClearExpire takes the expiry away, and says whether there was one: clearExpire().
func (l *Limiter) ClearExpire(ctx context.Context) (bool, error) {
	if err := l.check(ctx); err != nil {
		return false, err
	}
	n, err := l.askInt(ctx, l.keys[:1], eachScript, l.keys[:], "PERSIST")
	return n > 0, err
}

// What [Limiter.RemainTimeToLive] gives where there is no time left to tell, as Redisson and Redis do.
const (
	NeverExpires time.Duration = -1 // the limiter has no expiry
	DoesNotExist time.Duration = -2 // there is no such limiter
)

// RemainTimeToLive is how long the limiter has to live: remainTimeToLive(). It is [NeverExpires] or [DoesNotExist]
// where that is not a time.
func (l *Limiter) RemainTimeToLive(ctx context.Context) (time.Duration, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	ms, err := l.do(ctx, l.client.redis.B().Arbitrary("PTTL").Keys(l.keys[configKey]).Build())
	if err != nil || ms < 0 {
		return time.Duration(ms), err
	}
	return millis(ms), nil
}

// ExpireTime is when the limiter expires: getExpireTime(). It is the zero Time where the limiter never does or does
// not exist, which RemainTimeToLive tells apart.
func (l *Limiter) ExpireTime(ctx context.Context) (time.Time, error) {
	if err := l.check(ctx); err != nil {
		return time.Time{}, err
	}
	ms, err := l.askInt(ctx, nil, expireTimeScript, l.keys[:1])
	if err != nil || ms < 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}

// Rename gives the limiter another name, with all its state: rename. A limiter of the new name is replaced. Limiter
// values do not change: this one goes on to stand for the old name. A limiter without configuration is
// [ErrNotInitialized]; names of different slots, on a cluster, are [ErrCrossSlot]. Names like "x" and "{x}", whose state
// has the same keys, are [ErrInvalidName]. Permits that another process has leased under the old name are not returned:
// they return when they expire, an interval after the lease.
func (l *Limiter) Rename(ctx context.Context, newName string) error {
	_, err := l.move(ctx, "RENAME", newName, true)
	return err
}

// RenameNX is [Limiter.Rename] where there is no limiter of the new name, and says whether that was so: renamenx.
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

// Copy makes a second limiter with the same rate and state, and says whether it did: copy. Without [Replace] it does
// not where there is a limiter of the new name. It needs Redis 6.2, and takes the server as long as the state is
// large. Errors are those of Rename.
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
	target, err := l.client.open(newName)
	if err != nil {
		return false, err
	}
	if target[configKey] != l.keys[configKey] && target[valueKey] == l.keys[valueKey] {
		return false, fmt.Errorf("%w: %q and %q share the keys of their state: choose another name", ErrInvalidName, l.calls.Name, newName)
	}
	both := slices.Concat(l.keys[:], target[:])
	if l.client.engine.Cluster() {
		if err := checkSlots(both...); err != nil {
			return false, err
		}
	}
	flag := "0"
	if replace {
		flag = "1"
	}
	moved, err := l.askInt(ctx, []string{l.keys[configKey], target[configKey]}, moveScript, both, command, flag)
	switch {
	case err != nil:
	case moved == replyUnsupported:
		err = fmt.Errorf("%w: Copy of %q needs Redis 6.2", ErrUnsupported, l.calls.Name)
	case moved < 0:
		err = fmt.Errorf("%w: there is no limiter %q to rename or copy", ErrNotInitialized, l.calls.Name)
	}
	return moved == 1, err
}
