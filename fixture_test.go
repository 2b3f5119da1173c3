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
func withRedis(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(f.Conn).Limiter("none")
		_, err := none.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotInitialized)
		_, err = none.Take(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotInitialized)
		test(t, &fixture{f})
	})
}

// runWithRedis runs a subtest with a Redis in memory.
func runWithRedis(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// limiter opens a limiter and sets its rate.
func (f *fixture) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(f.Conn, opts...).Limiter("limiter")
	require.NoError(f, l.SetRate(f.Context(), rate))
	return l
}

// decision takes permits and returns the numbers.
func (f *fixture) decision(l *Limiter, permits int64) Decision {
	f.Helper()
	d, err := l.Take(f.Context(), permits)
	require.NoError(f, err)
	return d
}

// configured returns the rate of a limiter.
func (f *fixture) configured(l *Limiter) Rate {
	f.Helper()
	rate, err := l.Config(f.Context())
	require.NoError(f, err)
	return rate
}

// everyCall lists every call of a limiter with valid arguments.
func everyCall(l *Limiter) map[string]func(context.Context) error {
	return everyCallWith(l, 1, Rate{Permits: 10, Interval: time.Second})
}

// everyCallWith lists every call of a limiter.
func everyCallWith(l *Limiter, permits int64, rate Rate) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TrySetRate":   func(ctx context.Context) error { return redistest.Err(l.TrySetRate(ctx, rate)) },
		"SetRate":      func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"SetRate keep": func(ctx context.Context) error { return l.SetRate(ctx, rate, KeepState()) },
		"UpdateRate":   func(ctx context.Context) error { return redistest.Err(l.UpdateRate(ctx, rate)) },
		"Config":       func(ctx context.Context) error { return redistest.Err(l.Config(ctx)) },
		"TryAcquire":   func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, permits)) },
		"TryAcquireWithin": func(ctx context.Context) error {
			return redistest.Err(l.TryAcquireWithin(ctx, permits, time.Second))
		},
		"Acquire": func(ctx context.Context) error { return l.Acquire(ctx, permits) },
		"Take":    func(ctx context.Context) error { return redistest.Err(l.Take(ctx, permits)) },
		"TakeUpTo": func(ctx context.Context) error {
			_, _, err := l.TakeUpTo(ctx, permits)
			return err
		},
		"Release":          func(ctx context.Context) error { return l.Release(ctx, permits) },
		"AvailablePermits": func(ctx context.Context) error { return redistest.Err(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return redistest.Err(l.Exists(ctx)) },
		"Expire":           func(ctx context.Context) error { return redistest.Err(l.Expire(ctx, time.Hour)) },
		"ExpireAt": func(ctx context.Context) error {
			return redistest.Err(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
		},
		"ClearExpire":      func(ctx context.Context) error { return redistest.Err(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return redistest.Err(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return redistest.Err(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return redistest.Err(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return redistest.Err(l.SizeInMemory(ctx)) },
		"Copy":             func(ctx context.Context) error { return redistest.Err(l.Copy(ctx, "copy", Replace())) },
		"RenameNX":         func(ctx context.Context) error { return redistest.Err(l.RenameNX(ctx, l.Name())) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, l.Name()) },
		"Unlink":           func(ctx context.Context) error { return redistest.Err(l.Unlink(ctx)) },
		"Delete":           func(ctx context.Context) error { return redistest.Err(l.Delete(ctx)) },
	}
}

func (f *fixture) rate() int64 {
	f.Helper()
	rate, err := strconv.ParseInt(f.Redis.HGet("limiter", "rate"), 10, 64)
	require.NoError(f, err)
	return rate
}

// setRate sets the rate as another client does that keeps the state.
func (f *fixture) setRate(rate int64) { f.Redis.HSet("limiter", "rate", strconv.FormatInt(rate, 10)) }

// hint returns the hint of a Client that knows the limiter.
func (f *fixture) hint() string {
	return f.Redis.HGet("limiter", "rate") + " " + f.Redis.HGet("limiter", "interval")
}

// run runs a script as it is.
func (f *fixture) run(script *redisx.Script, l *Limiter, args ...string) (rueidis.RedisMessage, error) {
	return l.wire.client.engine.Eval(f.Context(), nil, script, l.wire.keys[:], args, nil)
}

func (f *fixture) nowText() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// member is a member of a grant: one letter 16 times, and the permits.
func member(letter string, permits int64) string {
	return memberOf("\x10"+strings.Repeat(letter, 16), permits)
}

// granted takes permits under a member of that letter.
func (f *fixture) granted(l *Limiter, letter string, permits int64) {
	f.Helper()
	reply, err := f.run(acquireScript, l, f.nowText(), member(letter, permits), f.hint(), "", fmt.Sprint(permits))
	require.NoError(f, err)
	left, err := reply.AsInt64()
	require.NoError(f, err)
	require.GreaterOrEqual(f, left, int64(0))
}

// fill grants permits so many times, a millisecond apart: the first time by a call, then in its place,
// since calls take long. The sizes take turns.
func (f *fixture) fill(l *Limiter, grants int, sizes ...int64) {
	f.Helper()
	f.RequireGranted(l, sizes[0])
	value, permits := valueKey, permitsKey
	if f.Redis.HGet(l.Name(), "type") == "1" {
		value, permits = clientValueKey, clientPermitsKey
	}
	for i := 1; i < grants; i++ {
		time.Sleep(time.Millisecond)
		n, now := sizes[i%len(sizes)], float64(timeOf(l.wire.client.nowText()))
		f.RequireNoError(f.Redis.ZAdd(l.wire.keys[permits], now, l.wire.client.member(n, false)))
		f.RequireNoError(f.Redis.Incr(l.wire.keys[value], -int(n)))
	}
	time.Sleep(time.Millisecond)
}

// fillNow is fill with grants of one permit and of this moment.
func (f *fixture) fillNow(l *Limiter, grants int) {
	f.Helper()
	f.RequireGranted(l, 1)
	for range grants - 1 {
		f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), l.wire.client.member(1, false)))
	}
	f.RequireNoError(f.Redis.Incr("{limiter}:value", 1-grants))
}

// grants returns the permits of all members of the overall set, by their letters.
func (f *fixture) grants() map[string]int64 {
	all := make(map[string]int64)
	for _, m := range f.members() {
		all[m[1:2]] += int64(binary.LittleEndian.Uint32([]byte(m[17:])))
	}
	return all
}

// members returns the members of the overall set.
func (f *fixture) members() []string {
	if !f.Redis.Exists("{limiter}:permits") {
		return nil
	}
	members, err := f.Redis.ZMembers("{limiter}:permits")
	require.NoError(f, err)
	return members
}

// ttls returns the TTLs of all keys, by the end of their names; 0 is none.
func (f *fixture) ttls() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, key := range f.Redis.Keys() {
		name := strings.TrimPrefix(key, "{limiter}:")
		if before, _, own := strings.Cut(name, ":"); own {
			name = "own " + before
		}
		all[name] = f.Redis.TTL(key)
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
func (f *fixture) drift() int64 {
	f.Helper()
	synctest.Wait() // a lease that arrives between the two reads below would look like drift
	value := f.Stored("{limiter}:value")
	return value + f.sum() - f.rate()
}

// sum returns the permits in the set.
func (f *fixture) sum() (sum int64) {
	f.Helper()
	for _, m := range f.members() {
		sum += int64(binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
	}
	return sum
}

// redissonReleases raises the value and leaves the grants.
func (f *fixture) redissonReleases(permits int64) {
	f.Helper()
	value := f.Stored("{limiter}:value")
	f.RequireNoError(f.Redis.Incr("{limiter}:value", int(min(f.rate()-value, permits))))
}

// countedNow lets the next count of drift wait for an hour.
func (f *fixture) countedNow(l *Limiter) { l.wire.hint().counts.set(time.Now().UnixMilli(), time.Hour) }

// mostCounted is the number of grants up to which recount.lua counts a set.
const mostCounted = 8192

// recount counts the permits of a limiter.
func (f *fixture) recount(l *Limiter) {
	f.Helper()
	_, _, err := l.wire.recount(f.Context(), l.wire.client.nowText())
	require.NoError(f, err)
}
