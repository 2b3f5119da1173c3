package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestAnswer_SeveralRequests_EachHasItsOwn: the permits left after it, and when its permits return.
// The fewest denied permits are those of a denial.
func TestAnswer_SeveralRequests_EachHasItsOwn(t *testing.T) {
	granted := func(left int64) Decision { return Decision{Allowed: true, Remaining: left} }
	denied := func(left int64, after time.Duration) Decision { return Decision{Remaining: left, RetryAfter: after} }
	for name, test := range map[string]struct {
		free   int64
		reply  string // milliseconds and permits of returns
		wants  []int64
		marks  string
		want   []Decision
		denied int64
	}{
		"all granted": {4, "", []int64{1, 2, 3}, "*", []Decision{granted(9), granted(7), granted(4)}, 0},
		"some granted": {1, ", 1000, 5, 2000, 1, 3000, 3", []int64{1, 8, 2, 7}, "gngn",
			[]Decision{granted(3), denied(1, 3*time.Second), granted(1), denied(1, 2*time.Second)}, 7},
		"more than the rate": {-3, ", 1000, 3, 2000, 1, 3000, 9", []int64{1, 2}, "nn",
			[]Decision{denied(0, 2*time.Second), denied(0, 3*time.Second)}, 1},
		"above the rate": {5, "", []int64{11, 5}, "xg", []Decision{{}, granted(5)}, 0},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.Conn).Limiter("a")
			ba := &engine.Batch{Run: engine.Run{Call: redisx.Call{Args: []string{"7"}}}}
			for _, permits := range test.wants {
				ba.Requests = append(ba.Requests, &engine.Request{Ask: engine.Ask{Permits: permits}})
			}
			script := fmt.Sprintf("return {0, %d, 10, 10000, 4000, 7, '%s', 0, 6000%s}", test.free, test.marks, test.reply)
			reply, err := f.Conn.Do(t.Context(), f.Conn.B().Eval().Script(script).Numkeys(0).Build()).ToMessage()
			require.NoError(t, err)
			require.NoError(t, redistest.Err(l.protocol.Answer(ba, reply)))
			for i, r := range ba.Requests {
				if test.want[i] == (Decision{}) {
					assert.ErrorIs(t, r.Err, ErrPermitsExceedRate)
					assert.Zero(t, r.Decision)
					continue
				}
				test.want[i].Limit, test.want[i].ResetAfter = 10, 4*time.Second
				assert.Equal(t, test.want[i], Decision(r.Decision), "request %d", i)
			}
			assert.Equal(t, test.denied, ba.Denied)
			assert.Equal(t, 10*time.Second, ba.Forecast.(*forecast).interval)
			assert.Equal(t, 3*time.Second, ba.Forecast.Renew(), "half of the keep-alive")
		})
	}
}

func TestMillis_LargeNumbers_AreCut(t *testing.T) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	for ms, want := range map[int64]time.Duration{
		1: time.Millisecond, most: time.Duration(most) * time.Millisecond, most + 1: time.Duration(most) * time.Millisecond,
		math.MaxInt64: time.Duration(most) * time.Millisecond, math.MinInt64: -time.Duration(most) * time.Millisecond,
	} {
		assert.Equal(t, want, millis(ms), ms)
	}
}

func TestAnswer_ReplyOfAnotherShape_IsAnError(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.Conn).Limiter("a")
		for _, text := range []string{
			"{0, 1, 10, 1000, 1, 7, 'g', 0, 0}", "{0, 1, 10, 1000, 1, 7, 'ggg', 0, 0}", "{0, 1, 10, 1000, 1, 7}",
			"{0, 1, 10, 1000, 1, 7, 'gg'}", "{0, 1, 10, 1000, 1, 7, 'gg', 0, 0, 5}", "{0, 1, 10, 'x', 1, 7, 'gg', 0, 0}",
			"{0, 0, 10, 1000, 1, 7, 'gp', 0, 0}", "{0, 0, 10, 1000, 1, 7, 'gp ', 0, 0}",
			"{0, 0, 10, 1000, 1, 7, 'gp x', 0, 0}",
			"{0, 0, 10, 1000, 1, 7, 'gg=1', 0, 0}", "{0, 1, 10, 1000, 1, 7, 'gg', 'x', 0}", "{4, 1, 10, 1000, 1, 7, 'gg', 0, 0}",
			"{0, 1, 10, 1000, 1, 7, 'gp 99', 0, 0}",
			"{1, 'cursor', 1}", "{3, 0, 'rate', 'x'}", "{3, 6, 'rate', 'x'}", "{3, 1, 'rate', 'x', 'y'}", "{9}", "{-1}",
			"{}", "'x'", "{6}", // the call names all keys
		} {
			reply, err := f.Conn.Do(t.Context(), f.Conn.B().Eval().Script("return "+text).Numkeys(0).Build()).ToMessage()
			require.NoError(t, err)
			one := engine.Ask{Permits: 1}
			requests := []*engine.Request{{Ask: one}, {Ask: one}}
			run := engine.Run{Call: redisx.Call{Keys: l.protocol.keys[:], Args: []string{"7"}}}
			again, err := l.protocol.Answer(&engine.Batch{Run: run, Requests: requests}, reply)
			assert.ErrorContains(t, err, "unknown reply", text)
			assert.False(t, again)
		}
	})
}

// TestRelease_ReplyOfAnotherShape_IsAnError: likewise for AvailablePermits.
func TestRelease_ReplyOfAnotherShape_IsAnError(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.Conn).Limiter("limiter")
		for _, reply := range []string{"*1\r\n:0\r\n", "*3\r\n:0\r\n:0\r\n:0\r\n", "*2\r\n:0\r\n$1\r\nx\r\n"} {
			f.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) { peer.WriteRaw(reply) })
			for _, call := range []string{"Release", "Drain", "AvailablePermits"} {
				assert.ErrorContains(t, everyCall(l)[call](t.Context()), "unknown reply", reply)
			}
		}
	})
}

// TestForecast_Earliest_FollowsTheReturns: more permits than the rate take an interval for each
// rate. At most a page of returns is known.
func TestForecast_Earliest_FollowsTheReturns(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, test := range map[string]struct {
		free     int64
		wanted   int64
		interval time.Duration
		want     time.Duration
	}{
		"free permits":                   {4, 4, 10 * time.Second, 0},
		"one more than is free":          {4, 5, 10 * time.Second, 2 * time.Second},
		"free permits, once more":        {4, 14, 10 * time.Second, 10 * time.Second},
		"one more permit":                {0, 4, 10 * time.Second, 5 * time.Second},
		"the next rate":                  {0, 11, 10 * time.Second, 12 * time.Second},
		"three rates":                    {0, 25, 10 * time.Second, 25 * time.Second},
		"more are taken than the rate":   {-2, 1, 10 * time.Second, 2 * time.Second},
		"and one permit more":            {-2, 2, 10 * time.Second, 5 * time.Second},
		"more than is known":             {-2, 10, 10 * time.Second, 5 * time.Second},
		"more intervals than a Duration": {0, math.MaxInt64, 10 * time.Second, never},
		"a time that overflows":          {0, 21, 1 << 62, never},
		"a time that just overflows":     {0, 11, never - time.Second, never},
		"a time that does not":           {0, 11, never - 4*time.Second, never - 2*time.Second},
	} {
		// The permits of a return include those before it.
		returns := []permitsReturn{{2 * time.Second, 3}, {5 * time.Second, 10}}
		o := &forecast{rate: 10, interval: test.interval, free: test.free, returns: returns}
		assert.Equal(t, test.want, o.Earliest(1, test.wanted-1), name)
	}
	assert.Zero(t, (&forecast{rate: 10}).Earliest(0, 1), "no return is known")
	assert.Equal(t, engine.Never, new(forecast).Renew())
}

func TestForecast_Prefetches_MayReturnEarlier(t *testing.T) {
	f := forecast{rate: 10, interval: time.Second}
	f.add(300, 1)
	f.add(400, -2)
	f.add(700, 1)
	for wanted, want := range []time.Duration{0, 300, 350, 350, 650} {
		assert.Equal(t, want*time.Millisecond, f.Earliest(0, int64(wanted)), "%d permits", wanted)
	}
}

func TestForecast_Denied_KnowsWhenAllItsPermitsReturn(t *testing.T) {
	o := &forecast{rate: 10, reset: 6 * time.Second, returns: []permitsReturn{{2 * time.Second, 3}, {5 * time.Second, 7}}}
	want := engine.Decision{Limit: 10, RetryAfter: 5 * time.Second, ResetAfter: 6 * time.Second}
	for permits, all := range map[int64]bool{4: true, 7: true, 8: false} { // those of 8 are not known
		got, known := o.Denied(permits)
		assert.Equal(t, want, got, permits)
		assert.Equal(t, all, known, permits)
	}
}

// TestAcquire_PermitsPrefetchedByOthers_WaitsForThePrefetchToEnd: the wait is not an interval longer.
func TestAcquire_PermitsPrefetchedByOthers_WaitsForThePrefetchToEnd(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		const interval = 10 * time.Second
		l := f.limiter(Rate{Permits: 100, Interval: interval})
		f.RequireGranted(l, 40)
		other := New(f.Conn).Limiter("limiter")
		prefetch := f.prefetched(other.protocol.client, 60, 600*time.Millisecond)
		d := redistest.Result(t, l.Take, 50)
		assert.False(t, d.Allowed)
		assert.Equal(t, 650*time.Millisecond, d.RetryAfter)
		go func() {
			time.Sleep(590 * time.Millisecond)
			assert.NoError(t, other.protocol.refund(t.Context(), 60, prefetch[:17], 60, ""))
		}()
		// Unused permits return sooner than RetryAfter.
		f.RequireTrue(l.TryAcquireWithin(t.Context(), 50, 620*time.Millisecond))

		// A prefetch that is used up returns an interval later.
		f.prefetched(other.protocol.client, 10, 600*time.Millisecond)
		d = redistest.Result(t, l.Take, 5)
		assert.Equal(t, 650*time.Millisecond, d.RetryAfter)
		time.Sleep(650 * time.Millisecond)
		d = redistest.Result(t, l.Take, 5)
		assert.False(t, d.Allowed)
		assert.Greater(t, d.RetryAfter, 8*time.Second)
	})
}

// TestRetryAfter_GrantOfAClockAhead_IsNoPrefetch: it returns an interval after its date.
func TestRetryAfter_GrantOfAClockAhead_IsNoPrefetch(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		ahead := New(f.Conn, WithClock(func() time.Time { return time.Now().Add(5 * time.Millisecond) })).Limiter("limiter")
		f.RequireGranted(ahead, 10)
		assert.Equal(t, time.Hour+5*time.Millisecond, redistest.Result(t, l.Take, 1).RetryAfter)
	})
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 9})
	f.Add([]byte{})
	f.Add([]byte{13, 6, 0, 4, 0, 5, 0, 14, 0, 9, 0, 0, 5, 1, 'g'})
	f.Add([]byte{13, 8, 0, 4, 0, 5, 0, 14, 0, 9, 0, 0, 5, 1, 'n', 0, 9, 0, 9})
	f.Add([]byte{13, 2, 0, 5, 5, 1, 'x'})
	f.Add([]byte{13, 1, 0, 6})
	f.Add([]byte{13, 4, 0, 7, 0, 5, 5, 4, 'r', 'a', 't', 'e', 5, 1, 'x'})
	f.Add([]byte{13, 4, 0, 7, 0, 99, 5, 0, 5, 0})
	f.Add([]byte{9, 9, 'W', 'R', 'O', 'N', 'G', 'T', 'Y', 'P', 'E'})
	f.Add([]byte{13, 2, 0, 4, 0, 200})
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 210})

	odd := redistest.NewOdd(f)
	l := New(odd.Client).Limiter("r")
	f.Fuzz(func(t *testing.T, source []byte) {
		message := redistest.OddMessage(source)
		odd.Message.Store(&message)
		answers := func(times int32) { odd.Left.Store(times) }

		answers(3)
		decision, err := l.Take(t.Context(), 3)
		require.True(t, err == nil && decision.Remaining >= 0 || decision == Decision{}, "%+v, %v", decision, err)
		for name, call := range everyCall(l) {
			answers(3)
			limit, waits := time.Minute, name == "Acquire" || strings.HasSuffix(name, "Within")
			if waits {
				limit = 5 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			err := call(ctx)
			cancel()
			if !waits {
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			}
			requireNamed(t, l, err)
		}
	})
}

// requireNamed requires that an error contains the limiter's name, and a StateError one of its
// keys.
func requireNamed(t *testing.T, l *Limiter, err error) {
	t.Helper()
	var state *StateError
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &state):
		require.Contains(t, l.protocol.keys, state.Key)
	default:
		require.ErrorContains(t, err, strconv.Quote(l.Name()))
	}
}

// Another program may set a rate of 0, of which no permit returns.
func TestForecast_RateIsZero_NothingReturns(t *testing.T) {
	assert.Equal(t, engine.Never, (&forecast{interval: time.Second}).Earliest(0, 2))
}
