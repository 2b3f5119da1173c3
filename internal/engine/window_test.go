package engine

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

const second = time.Second

// window is the limiter of these tests: so many permits from a first grant on until a time is over,
// and then again.
type window struct {
	Limiter
	limit int64
	every time.Duration

	lag, renew time.Duration // of its forecasts
}

// open makes a window. It is known to Redis from its first grant on.
func open(g *Engine, name string, limit int64, every time.Duration) *window {
	l := &window{limit: limit, every: every}
	l.Engine, l.ID, l.Name, l.DependsOn, l.Protocol = g, name, name, []string{name}, l
	return l
}

// ARGV: now, limit, length of the window, o if no request overtakes a denied one, requests.
// Replies the begin of the window, the free permits, the time until its end, and a letter for each
// request.
var windowScript = redisx.NewScript(`
local now, limit, every = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'began', 'used')
local began, used = tonumber(state[1]), tonumber(state[2])
if not began or now >= began + every then
  began, used = now, 0
end
local letters, stopped = {}, false
for permits, times in string.gmatch(ARGV[5], '(%d+)%*(%d+)') do
  permits = tonumber(permits)
  for i = 1, tonumber(times) do
    if permits > limit then
      letters[#letters + 1] = 'x'
    elseif stopped or used + permits > limit then
      letters[#letters + 1], stopped = 'n', ARGV[4] == 'o'
    else
      letters[#letters + 1], used = 'g', used + permits
    end
  end
end
redis.call('HSET', KEYS[1], 'began', string.format('%.0f', began), 'used', string.format('%.0f', used))
return {began, limit - used, began + every - now, table.concat(letters)}
`)

// ARGV: permits, and a time in the window in which they were granted.
var backScript = redisx.NewScript(`
local state = redis.call('HMGET', KEYS[1], 'began', 'used')
if state[1] and tonumber(state[1]) <= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'used', string.format('%.0f', math.max(0, state[2] - ARGV[1])))
end
return 0
`)

func (l *window) Call(*Batch) (*redisx.Script, []string) { return windowScript, []string{l.ID} }

func (l *window) Arguments(b *Batch, now time.Time) {
	ordered := ""
	if b.Ordered {
		ordered = "o"
	}
	b.Args = append(b.Args[:0], l.Engine.Millis(now), strconv.FormatInt(l.limit, 10),
		strconv.FormatInt(l.every.Milliseconds(), 10), ordered, Runs(b.Requests))
}

func (l *window) Answer(b *Batch, message rueidis.RedisMessage) (again bool, err error) {
	reply, err := message.ToArray()
	if err != nil {
		return false, err
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = reply[i].AsInt64(); err != nil {
			return false, err
		}
	}
	letters, err := reply[len(numbers)].ToString()
	if err != nil || len(letters) != len(b.Requests) {
		return false, fmt.Errorf("%d letters for %d requests: %w", len(letters), len(b.Requests), err)
	}
	v := &view{l.limit, numbers[1], time.Duration(numbers[2]) * time.Millisecond, l.every, l.lag, l.renew}
	b.Forecast = v
	left := v.free
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		r.Answer = Answer{Allowed: letters[i] == 'g', Limit: v.limit, Remaining: left, ResetAfter: v.after}
		switch letters[i] {
		case 'g':
			left += r.Permits
		case 'x':
			r.Answer, r.Err = Answer{}, l.AboveLimit(r.Permits, v.limit)
		default:
			r.RetryAfter = v.after
			b.Denied = min(r.Permits, cmp.Or(b.Denied, r.Permits))
		}
	}
	return false, nil
}

func (l *window) Receipt(b *Batch) receipt.Refund {
	now := b.Args[0]
	return func(ctx context.Context, permits int64) error { return l.release(ctx, permits, now) }
}

func (l *window) Refund(b *Batch) func(context.Context) {
	var permits int64
	for _, r := range b.Lost {
		permits += r.Permits
	}
	now := b.Args[0]
	return func(ctx context.Context) { _ = l.release(ctx, permits, now) }
}

// release returns permits that were granted in the window of a time.
func (l *window) release(ctx context.Context, permits int64, now string) error {
	_, err := Change(ctx, l.Engine, []string{l.ID}, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return l.Engine.Eval(ctx, nil, backScript, []string{l.ID}, []string{strconv.FormatInt(permits, 10), now}, nil)
	})
	return err
}

func (l *window) Explain(_ context.Context, err error) error {
	return fmt.Errorf("%s: %w", l.Name, err)
}

// aboveLimit is the error of a request for more permits than a window has.
type aboveLimit struct{ permits, limit int64 }

func (e aboveLimit) Error() string { return fmt.Sprintf("%d permits of %d", e.permits, e.limit) }

func (l *window) AboveLimit(permits, limit int64) error { return aboveLimit{permits, limit} }

// view is the forecast of a window.
type view struct {
	limit, free int64
	after       time.Duration // until it ends
	every       time.Duration
	lag, renew  time.Duration
}

func (v *view) Limit() int64 { return v.limit }

func (v *view) Free() int64 { return v.free }

func (v *view) Denied(permits int64) (Answer, bool) {
	a := Answer{Limit: v.limit, Remaining: v.free, ResetAfter: v.after}
	if permits > v.free {
		a.RetryAfter = v.after
	}
	return a, permits > v.free
}

func (v *view) Parts(permits int64) []Answer {
	a, denied := v.Denied(permits)
	a.Allowed = !denied
	return []Answer{a, {Limit: 100, RetryAfter: v.after / 2, ResetAfter: v.after / 4}}
}

func (v *view) Lag() time.Duration { return v.lag }

func (v *view) Renew() time.Duration { return cmp.Or(v.renew, Never) }

func (v *view) Earliest(ahead, permits int64) time.Duration {
	wanted := ahead + permits
	if wanted <= v.free {
		return 0
	}
	rounds := (wanted - v.free - 1) / v.limit
	if rounds > int64((Never-v.after)/v.every) {
		return Never
	}
	return v.after + time.Duration(rounds)*v.every
}

func size(m *sync.Map) (n int) {
	for range m.Range {
		n++
	}
	return n
}

// fixture is a Redis in memory inside a synctest.Test, and what tests do with a window there.
type fixture struct{ *redistest.Fixture }

// withRedis runs a test with a Redis in memory and a clock of its own, and fails if a goroutine is
// left.
func withRedis(t *testing.T, test func(b *fixture)) {
	redistest.Run(t, func(m *redistest.Fixture) {
		b := &fixture{m}
		// The script is loaded, so that each call is one round trip.
		b.take(open(b.engine(), "none", 1, time.Millisecond), 1)
		// Replies on their way arrive before the connection is closed: rueidis may spin until it
		// has, and no time passes.
		defer func() {
			b.Latency.Store(0)
			pass(time.Minute)
		}()
		test(b)
	})
}

func runWithRedis(t *testing.T, name string, test func(b *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

func errOf(_ any, err error) error { return err }

func (b *fixture) engine() *Engine { return New(Settings{Redis: b.Conn}) }

// limiter opens a window on an engine of its own.
func (b *fixture) limiter(limit int64, every time.Duration) *window {
	return open(b.engine(), "limiter", limit, every)
}

// take takes permits that must be free.
func (b *fixture) take(l *window, permits int64) {
	b.Helper()
	result, err := l.Try(b.Context(), Ask{Permits: permits})
	require.NoError(b, err)
	require.True(b, result.Allowed, "%d permits should be free", permits)
}

// full makes sure that permits are not to be had.
func (b *fixture) full(l *window, permits int64) {
	b.Helper()
	result, err := l.Try(b.Context(), Ask{Permits: permits})
	require.NoError(b, err)
	require.False(b, result.Allowed, "%d permits should not be free", permits)
}

// pass lets time pass on the fake clock, which takes no real time.
func pass(d time.Duration) { redistest.Pass(d) }
