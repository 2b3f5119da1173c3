package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestWhenAnAlignedWindowEndsNeedsNoReply: a grant is a number. What the clock here cannot know is told all the same.
func TestWhenAnAlignedWindowEndsNeedsNoReply(t *testing.T) {
	aligned := FixedWindow{5, 10 * time.Second, true}
	one := func(r engine.Request) engine.Batch {
		r.Detail = true
		return engine.Batch{Requests: []*engine.Request{&r}}
	}
	plain := one(engine.Request{Permits: 1})
	full, ordered, leased := one(engine.Request{Permits: 1}), one(engine.Request{Permits: 1}), one(engine.Request{Permits: 1})
	full.Full, ordered.Ordered, leased.Lease = true, true, engine.Lease{Permits: 1, Span: time.Second}
	for what, c := range map[string]struct {
		letter   string
		batch    engine.Batch
		policies []Policy
		opts     []rratelimiter.Option
	}{
		"a window":           {"r", plain, []Policy{aligned}, nil},
		"of several":         {"d", plain, []Policy{aligned, FixedWindow{9, time.Hour, true}}, nil},
		"not aligned":        {"d", plain, []Policy{FixedWindow{5, 10 * time.Second, false}}, nil},
		"a bucket":           {"d", plain, []Policy{TokenBucket{5, 1, time.Second}}, nil},
		"the server's clock": {"d", plain, []Policy{aligned}, []rratelimiter.Option{rratelimiter.WithServerTime()}},
		"each":               {"d", one(engine.Request{Permits: 1, Each: true}), []Policy{aligned}, nil},
		"full":               {"d", full, []Policy{aligned}, nil},
		"in order":           {"do", ordered, []Policy{aligned}, nil},
		"leased":             {"d", leased, []Policy{aligned}, nil},
	} {
		inBubble(t, func(b *bubble) {
			p := (*protocol)(New(rratelimiter.New(b.Conn, c.opts...), "name", c.policies...))
			p.Arguments(&c.batch, time.Now())
			assert.Equal(b, c.letter, c.batch.Args[len(c.batch.Args)-1], what)
		})
	}

	inBubble(t, func(b *bubble) {
		l := New(b.client, "name", aligned)
		time.Sleep(1234567 * time.Microsecond)
		now := time.Now()
		ends := now.Truncate(aligned.Interval).Add(aligned.Interval).Sub(now)
		ask := func(permits int64) (brief bool, answer engine.Answer) {
			batch := one(engine.Request{Permits: permits})
			call := (*protocol)(l)
			call.Arguments(&batch, time.Now())
			script, keys := call.Call(&batch)
			reply, err := l.client.Engine.Eval(b.Context(), script, keys, batch.Args, nil)
			require.NoError(b, err)
			_, err = call.Answer(&batch, reply)
			require.NoError(b, err)
			return reply.IsInt64(), batch.Requests[0].Answer
		}
		brief, answer := ask(2)
		assert.True(b, brief)
		assert.Equal(b, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: ends}, answer)
		brief, answer = ask(4)
		assert.False(b, brief)
		assert.Equal(b, engine.Answer{Limit: 5, Remaining: 3, RetryAfter: ends, ResetAfter: ends}, answer)
		// By a clock that is ahead the next window has begun.
		key := l.members[0].keys[0]
		require.NoError(b, b.Redis.Set(key, fmt.Sprintf("%d001", now.Add(ends).UnixMilli())))
		brief, answer = ask(1)
		assert.False(b, brief)
		assert.Equal(b, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: ends + aligned.Interval}, answer)
		brief, answer = ask(3)
		assert.False(b, brief)
		assert.True(b, answer.Allowed)
		// Somebody else has written a window that begins between two multiples of the interval.
		require.NoError(b, b.Redis.Set(key, fmt.Sprintf("%d001", now.Add(ends-aligned.Interval).UnixMilli()+1)))
		brief, answer = ask(1)
		assert.False(b, brief)
		assert.Equal(b, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: ends + time.Millisecond}, answer)
	})

	for _, at := range []int64{0, 1, -1, 9_999_999, 10_000_000, -10_000_000, 12_345_678} {
		o := aligned.at(at, 2)
		assert.Equal(t, at-(at%1e7+1e7)%1e7+1e7, at+o.reset().Microseconds(), "%d", at)
		assert.Equal(t, int64(2), o.left())
	}
}
