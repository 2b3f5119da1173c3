package rratelimiter

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestEachOfACallHasItsOwnAnswer: what is left after it, and when its own permits could be had.
func TestEachOfACallHasItsOwnAnswer(t *testing.T) {
	granted := func(left int64) Decision { return Decision{Allowed: true, Remaining: left} }
	denied := func(left int64, after time.Duration) Decision { return Decision{Remaining: left, RetryAfter: after} }
	type pair struct {
		after   time.Duration
		permits int64
	}
	for name, test := range map[string]struct {
		free  int64
		reply []pair
		wants []int64
		marks string
		want  []Decision
	}{
		"all granted":        {4, nil, []int64{1, 2, 3}, "*", []Decision{granted(9), granted(7), granted(4)}},
		"some granted":       {1, []pair{{second, 5}, {2 * second, 1}, {3 * second, 3}}, []int64{1, 7, 2, 8}, "gngn", []Decision{granted(3), denied(3, 2*second), granted(1), denied(1, 3*second)}},
		"none granted":       {1, []pair{{second, 1}, {2 * second, 8}}, []int64{2, 3}, "nn", []Decision{denied(1, second), denied(1, 2*second)}},
		"more than the rate": {-3, []pair{{second, 3}, {2 * second, 1}, {3 * second, 9}}, []int64{1, 2}, "nn", []Decision{denied(0, 2*second), denied(0, 3*second)}},
		"above the rate":     {5, nil, []int64{11, 5}, "xg", []Decision{{}, granted(5)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := New(b.Conn).Limiter("a")
				ba := new(engine.Batch)
				for _, permits := range test.wants {
					ba.Requests = append(ba.Requests, &engine.Request{Permits: permits})
				}
				script := "return {0, " + decimal(test.free) + ", 10, 10000, 4000, 7, '" + test.marks + "', ''"
				for _, r := range test.reply {
					script += ", " + decimal(r.after.Milliseconds()) + ", " + decimal(r.permits)
				}
				reply, err := b.Conn.Do(b.Context(), b.Conn.B().Eval().Script(script+"}").Numkeys(0).Build()).ToArray()
				require.NoError(b, err)
				require.NoError(b, l.wire.answer(ba, reply))
				for i, r := range ba.Requests {
					if test.want[i] == (Decision{}) {
						assert.ErrorIs(b, r.Err, ErrPermitsExceedRate)
						assert.Zero(b, r.Answer)
						continue
					}
					test.want[i].Limit, test.want[i].ResetAfter = 10, 4*second
					assert.Equal(b, test.want[i], Decision(r.Answer), "request %d", i)
				}
				assert.Equal(b, 10*second, ba.Outlook.(*outlook).interval)
			})
		})
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// TestDurationsAreCutAndDoNotOverflow.
func TestDurationsAreCutAndDoNotOverflow(t *testing.T) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	for ms, want := range map[int64]time.Duration{
		0: 0, 1: time.Millisecond, most: time.Duration(most) * time.Millisecond, most + 1: time.Duration(most) * time.Millisecond,
		math.MaxInt64: time.Duration(most) * time.Millisecond, 1 << 53: time.Duration(most) * time.Millisecond,
		math.MinInt64: -time.Duration(most) * time.Millisecond,
	} {
		assert.Equal(t, want, millis(ms), ms)
	}
}

// TestTheLastClockGivenCounts.
func TestTheLastClockGivenCounts(t *testing.T) {
	fixed := func() time.Time { return time.UnixMilli(1234567) }
	for want, opts := range map[string][]Option{
		"1234567": {WithServerTime(), WithClock(fixed)},
		"":        {WithClock(fixed), WithServerTime()},
	} {
		assert.Equal(t, want, New(nil, opts...).nowText())
	}
	assert.NotEmpty(t, New(nil, WithServerTime(), WithClock(nil)).nowText())
}

// TestRepliesThatFitNoCallAreRefused.
func TestRepliesThatFitNoCallAreRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := New(b.Conn).Limiter("a")
		for _, text := range []string{"{0, 1, 10, 1000, 1, 7, 'g'}", "{0, 1, 10, 1000, 1, 7, 'ggg'}", "{0, 1, 10, 1000, 1, 7}", "{0, 1, 10, 1000, 1, 7, 'gg', 5}", "{0, 1, 10, 'x', 1, 7, 'gg'}"} {
			reply, err := b.Conn.Do(b.Context(), b.Conn.B().Eval().Script("return "+text).Numkeys(0).Build()).ToArray()
			require.NoError(b, err)
			assert.ErrorContains(b, l.wire.answer(&engine.Batch{Requests: []*engine.Request{{Permits: 1}, {Permits: 1}}}, reply), "unknown reply", text)
		}
		for _, text := range []string{"{1, 'cursor', 1}", "{3, 0, 'rate', 'x'}", "{3, 6, 'rate', 'x'}", "{3, 1, 'rate', 'x', 'y'}", "{9}"} {
			reply, err := b.Conn.Do(b.Context(), b.Conn.B().Eval().Script("return "+text).Numkeys(0).Build()).ToArray()
			require.NoError(b, err)
			_, again, err := l.wire.status(reply)
			assert.ErrorContains(b, err, "unknown reply", text)
			assert.False(b, again)
		}
	})
}

// TestOptionsThatAreNilAreNone, and a fresh limiter is one to touch.
func TestOptionsThatAreNilAreNone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := New(b.Conn, nil).Limiter("fresh")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1, Interval: second}, nil))
		there, err := l.Touch(b.Context())
		require.NoError(b, err)
		assert.True(b, there)
	})
}

// answering is a client whose Redis gives one answer to everything.
type answering struct {
	rueidis.Client
	text string
}

func (c *answering) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	return c.Client.Do(ctx, c.B().Eval().Script("return "+c.text).Numkeys(0).Build())
}

// TestReleaseAndAvailablePermitsTakeTheirOwnRepliesOnly.
func TestReleaseAndAvailablePermitsTakeTheirOwnRepliesOnly(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for _, text := range []string{"{0}", "{0, 0, 0}", "{0, 'x'}"} {
			l := New(&answering{b.Conn, text}).Limiter("limiter")
			for _, call := range []string{"Release", "AvailablePermits"} {
				assert.ErrorContains(b, everyCall(l)[call](b.Context()), "unknown reply", text)
			}
		}
	})
}

// TestAConfigurationWithTheLongestTimesIsRead, and they are cut to what a Duration holds.
func TestAConfigurationWithTheLongestTimesIsRead(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := New(b.Conn).Limiter("limiter")
		b.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime", "999999999999999")
		rate, err := l.Config(b.Context())
		require.NoError(b, err)
		assert.Equal(b, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
	})
}

// TestTheLargestRateIsOneText: from 2^53 on a number no longer tells what was meant, for Config as for the scripts.
func TestTheLargestRateIsOneText(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: maxPermits, Interval: second})
		for _, text := range []string{"9007199254740993", "09007199254740992"} {
			b.Redis.HSet("limiter", "rate", text)
			var state *StateError
			_, err := l.Config(b.Context())
			assert.ErrorAs(b, err, &state, text)
			_, err = l.TryAcquire(b.Context(), 1)
			assert.ErrorAs(b, err, &state, text)
		}
	})
}
