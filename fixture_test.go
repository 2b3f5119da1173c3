package rratelimiter

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// fixture is a Redis in memory inside a synctest.Test, with the helpers of this package's tests.
type fixture struct{ *redistest.Fixture }

// withRedis runs a test with a Redis in memory and a clock of its own. It fails if a goroutine
// remains.
func withRedis(t *testing.T, test func(b *fixture)) {
	redistest.Run(t, func(m *redistest.Fixture) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(m.Conn).Limiter("none")
		_, err := none.TryAcquire(m.Context(), 1)
		require.ErrorIs(m, err, ErrNotInitialized)
		_, err = none.Take(m.Context(), 1)
		require.ErrorIs(m, err, ErrNotInitialized)
		test(&fixture{m})
	})
}

// runWithRedis runs a subtest with a Redis in memory.
func runWithRedis(t *testing.T, name string, test func(b *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// limiter opens a limiter and sets its rate.
func (b *fixture) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(b.Conn, opts...).Limiter("limiter")
	require.NoError(b, l.SetRate(b.Context(), rate))
	return l
}

// yes requires that a call returned true, no that it returned false, must that it did not fail.
func (b *fixture) yes(ok bool, err error) {
	b.Helper()
	require.NoError(b, err)
	require.True(b, ok)
}

func (b *fixture) no(ok bool, err error) {
	b.Helper()
	require.NoError(b, err)
	require.False(b, ok)
}

func (b *fixture) must(_ any, err error) {
	b.Helper()
	require.NoError(b, err)
}

// decision takes permits and returns the numbers.
func (b *fixture) decision(l *Limiter, permits int64) Decision {
	b.Helper()
	d, err := l.Take(b.Context(), permits)
	require.NoError(b, err)
	return d
}

// configured returns the rate of a limiter.
func (b *fixture) configured(l *Limiter) Rate {
	b.Helper()
	rate, err := l.Config(b.Context())
	require.NoError(b, err)
	return rate
}

// pass lets time pass on the fake clock.
func pass(d time.Duration) { redistest.Pass(d) }

const second = time.Second

// errOf returns the error of a call.
func errOf(_ any, err error) error { return err }

// everyCall lists every call of a limiter with valid arguments.
func everyCall(l *Limiter) map[string]func(context.Context) error {
	return everyCallWith(l, 1, Rate{Permits: 10, Interval: second})
}

// everyCallWith lists every call of a limiter.
func everyCallWith(l *Limiter, permits int64, rate Rate) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TrySetRate":       func(ctx context.Context) error { return errOf(l.TrySetRate(ctx, rate)) },
		"SetRate":          func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"SetRate keep":     func(ctx context.Context) error { return l.SetRate(ctx, rate, KeepState()) },
		"UpdateRate":       func(ctx context.Context) error { return errOf(l.UpdateRate(ctx, rate)) },
		"Config":           func(ctx context.Context) error { return errOf(l.Config(ctx)) },
		"TryAcquire":       func(ctx context.Context) error { return errOf(l.TryAcquire(ctx, permits)) },
		"TryAcquireWithin": func(ctx context.Context) error { return errOf(l.TryAcquireWithin(ctx, permits, second)) },
		"Acquire":          func(ctx context.Context) error { return l.Acquire(ctx, permits) },
		"Take":             func(ctx context.Context) error { return errOf(l.Take(ctx, permits)) },
		"TakeUpTo": func(ctx context.Context) error {
			_, _, err := l.TakeUpTo(ctx, permits)
			return err
		},
		"Release":          func(ctx context.Context) error { return l.Release(ctx, permits) },
		"AvailablePermits": func(ctx context.Context) error { return errOf(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return errOf(l.Exists(ctx)) },
		"Expire":           func(ctx context.Context) error { return errOf(l.Expire(ctx, time.Hour)) },
		"ExpireAt":         func(ctx context.Context) error { return errOf(l.ExpireAt(ctx, time.Now().Add(time.Hour))) },
		"ClearExpire":      func(ctx context.Context) error { return errOf(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return errOf(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return errOf(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return errOf(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return errOf(l.SizeInMemory(ctx)) },
		"Copy":             func(ctx context.Context) error { return errOf(l.Copy(ctx, "copy", Replace())) },
		"RenameNX":         func(ctx context.Context) error { return errOf(l.RenameNX(ctx, l.Name())) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, l.Name()) },
		"Unlink":           func(ctx context.Context) error { return errOf(l.Unlink(ctx)) },
		"Delete":           func(ctx context.Context) error { return errOf(l.Delete(ctx)) },
	}
}

func (b *fixture) rate() int64 {
	b.Helper()
	rate, err := strconv.ParseInt(b.Redis.HGet("limiter", "rate"), 10, 64)
	require.NoError(b, err)
	return rate
}

// setRate sets the rate as another client does that keeps the state.
func (b *fixture) setRate(rate int64) { b.Redis.HSet("limiter", "rate", strconv.FormatInt(rate, 10)) }

// hint returns the hint of a Client that knows the limiter.
func (b *fixture) hint() string {
	return b.Redis.HGet("limiter", "rate") + " " + b.Redis.HGet("limiter", "interval")
}

// run runs a script as it is.
func (b *fixture) run(script *redisx.Script, l *Limiter, args ...string) (rueidis.RedisMessage, error) {
	return l.wire.client.engine.Eval(b.Context(), nil, script, l.wire.keys[:], args, nil)
}

func (b *fixture) nowText() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// member is a member of a grant: one letter 16 times, and the permits.
func member(letter string, permits int64) string {
	return memberOf("\x10"+strings.Repeat(letter, 16), permits)
}

// granted takes permits under a member of that letter.
func (b *fixture) granted(l *Limiter, letter string, permits int64) {
	b.Helper()
	reply, err := b.run(acquireScript, l, b.nowText(), member(letter, permits), b.hint(), "", fmt.Sprint(permits))
	require.NoError(b, err)
	left, err := reply.AsInt64()
	require.NoError(b, err)
	require.GreaterOrEqual(b, left, int64(0))
}

// grants returns the permits of all members of the overall set, by their letters.
func (b *fixture) grants() map[string]int64 {
	all := make(map[string]int64)
	for _, m := range b.members() {
		all[m[1:2]] += int64(binary.LittleEndian.Uint32([]byte(m[17:])))
	}
	return all
}

// members returns the members of the overall set.
func (b *fixture) members() []string {
	if !b.Redis.Exists("{limiter}:permits") {
		return nil
	}
	members, err := b.Redis.ZMembers("{limiter}:permits")
	require.NoError(b, err)
	return members
}

// ttls returns the TTLs of all keys, by the end of their names; 0 is none.
func (b *fixture) ttls() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, key := range b.Redis.Keys() {
		name := strings.TrimPrefix(key, "{limiter}:")
		if before, _, own := strings.Cut(name, ":"); own {
			name = "own " + before
		}
		all[name] = b.Redis.TTL(key)
	}
	return all
}

// texts is a reply of the acquire script as text, its parts with a space between them.
func texts(t require.TestingT, reply rueidis.RedisMessage, err error) string {
	require.NoError(t, err)
	if reply.IsInt64() {
		n, _ := reply.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	parts, err := reply.ToArray()
	require.NoError(t, err)
	var all []string
	for _, p := range parts {
		if n, err := p.AsInt64(); err == nil {
			all = append(all, strconv.FormatInt(n, 10))
		} else {
			text, _ := p.ToString()
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// fuzzEpoch is the time at which the clocks of the fuzzed limiters begin.
var fuzzEpoch = time.UnixMilli(1_700_000_000_000)

// fuzzServer is an in-memory Redis and a client of it, for all inputs of one target.
func fuzzServer(f *testing.F) (*miniredis.Miniredis, rueidis.Client) {
	server := miniredis.RunT(f)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(f, err)
	f.Cleanup(client.Close)
	return server, client
}

// drift returns value + permits in the set - rate.
func (b *fixture) drift() int64 {
	b.Helper()
	synctest.Wait() // a lease that arrives between the two reads below would look like drift
	value := b.Stored("{limiter}:value")
	return value + b.sum() - b.rate()
}

// sum returns the permits in the set.
func (b *fixture) sum() (sum int64) {
	b.Helper()
	for _, m := range b.members() {
		sum += int64(binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
	}
	return sum
}

// redissonReleases raises the value and leaves the grants.
func (b *fixture) redissonReleases(permits int64) {
	b.Helper()
	value := b.Stored("{limiter}:value")
	require.NoError(b, b.Redis.Set("{limiter}:value", strconv.FormatInt(min(b.rate(), value+permits), 10)))
}

// counted runs the acquire script for permits, and returns what it reports about the count.
func (b *fixture) counted(l *Limiter, hint string, permits int64) string {
	b.Helper()
	m := l.wire.client.member(permits, false)
	reply, err := b.run(acquireScript, l, b.nowText(), m, hint, "", strconv.FormatInt(permits, 10), "", "dw")
	require.NoError(b, err)
	parts, err := reply.ToArray()
	require.NoError(b, err)
	if len(parts) < 8 {
		return texts(b, reply, nil)
	}
	text, err := parts[7].ToString()
	require.NoError(b, err)
	return text
}

// recount runs recount.lua once. It returns the next cursor, or "done 1" at the end, "done 0" if
// another count is to follow soon.
func (b *fixture) recount(l *Limiter, cursor string) string {
	b.Helper()
	reply, err := b.run(recountScript, l, b.nowText(), "", "", "", "", cursor)
	text := texts(b, reply, err)
	pass(time.Millisecond)
	if following, ok := strings.CutPrefix(text, "1 "); ok {
		return following
	}
	return "done " + text[2:3]
}

// count runs recount.lua from a cursor on, until the count has ended or is to be confirmed, or grants
// are left to be removed.
func (b *fixture) count(l *Limiter, cursor string) string {
	b.Helper()
	for {
		cursor = b.recount(l, cursor)
		for _, end := range []string{"done", "found", "cut"} {
			if strings.HasPrefix(cursor, end) {
				return cursor
			}
		}
	}
}
