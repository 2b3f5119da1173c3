package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

// badNames are names whose keys do not share a slot: a brace that never closes, one that never opened, and an empty tag. The second
// key of each is the first that lies elsewhere.
var badNames = []struct{ name, value string }{
	{"a{b", "a{b:value"},
	{"a}b", "{a}b}:value"},
	{"{}a", "{}a:value"},
	{"a{}{b}", "a{}{b}:value"},
	{"}", "{}}:value"},
	{"{", "{:value"},
}

// calls are all public calls that ask Redis about a limiter, but Rename, RenameNX and Copy.
var calls = map[string]func(context.Context, *rratelimiter.Limiter) error{
	"TrySetRate": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.TrySetRate(ctx, rratelimiter.Rate{Permits: 1, Interval: time.Second})
		return err
	},
	"SetRate": func(ctx context.Context, l *rratelimiter.Limiter) error {
		return l.SetRate(ctx, rratelimiter.Rate{Permits: 1, Interval: time.Second})
	},
	"UpdateRate": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.UpdateRate(ctx, rratelimiter.Rate{Permits: 1, Interval: time.Second})
		return err
	},
	"Config": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Config(ctx); return err },
	"TryAcquire": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.TryAcquire(ctx, 1)
		return err
	},
	"TryAcquireWithin": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.TryAcquireWithin(ctx, 1, time.Second)
		return err
	},
	"Acquire": func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Acquire(ctx, 1) },
	"Take":    func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Take(ctx, 1); return err },
	"Release": func(ctx context.Context, l *rratelimiter.Limiter) error { return l.Release(ctx, 1) },
	"AvailablePermits": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.AvailablePermits(ctx)
		return err
	},
	"Exists": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Exists(ctx); return err },
	"Delete": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Delete(ctx); return err },
	"Unlink": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Unlink(ctx); return err },
	"Expire": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.Expire(ctx, time.Hour)
		return err
	},
	"ExpireAt": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.ExpireAt(ctx, time.Now().Add(time.Hour))
		return err
	},
	"ClearExpire": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.ClearExpire(ctx); return err },
	"RemainTimeToLive": func(ctx context.Context, l *rratelimiter.Limiter) error {
		_, err := l.RemainTimeToLive(ctx)
		return err
	},
	"ExpireTime":   func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.ExpireTime(ctx); return err },
	"Touch":        func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.Touch(ctx); return err },
	"SizeInMemory": func(ctx context.Context, l *rratelimiter.Limiter) error { _, err := l.SizeInMemory(ctx); return err },
}

// No call can work on a name whose keys do not share a slot. Redisson lets the server refuse it; here nothing is sent, and the error
// tells which key is where.
func TestNamesWhoseKeysDoNotShareASlot(t *testing.T) {
	ctx := t.Context()
	for _, bad := range badNames {
		slots := slotsOf(t, bad.name, bad.value)
		require.NotEqual(t, slots[0], slots[1], "%q would be a good name", bad.name)
		l := client.Limiter(bad.name)
		for call, do := range calls {
			err := do(ctx, l)
			require.ErrorIs(t, err, rratelimiter.ErrCrossSlot, "%s of %q", call, bad.name)
			require.ErrorContains(t, err, fmt.Sprintf("%q is in slot %d, %q in slot %d", bad.name, slots[0], bad.value, slots[1]), call)
		}
		for _, key := range []string{bad.name, bad.value} {
			require.Equal(t, []string{""}, contents(t, []string{key}), "%q was written", key)
		}

		_, err := redisson.Limiter(bad.name).TryAcquire(ctx, 1)
		var thrown *oracle.Error
		require.ErrorAs(t, err, &thrown)
		require.Contains(t, thrown.Message, "CROSSSLOT", "what Redisson says of %q", bad.name)
	}
}

// A good name with an odd brace is nobody's error: the keys share a slot.
func TestOddNamesWhoseKeysShareASlot(t *testing.T) {
	ctx := t.Context()
	for _, name := range []string{"{a}}", "{a}{", "x{{a}}y", "{{}", "a}{b}"} {
		l := client.Limiter(name)
		require.NoError(t, l.SetRate(ctx, rratelimiter.Rate{Permits: 2, Interval: time.Hour}), name)
		granted, err := redisson.Limiter(name).TryAcquire(ctx, 1)
		require.NoError(t, err, name)
		require.True(t, granted, name)
		free, err := l.AvailablePermits(ctx)
		require.NoError(t, err, name)
		require.EqualValues(t, 1, free, name)
		_, err = l.Delete(ctx)
		require.NoError(t, err)
	}
}
