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

// TestTake_FixedWindow_NeedsNoLongReply: the text of a granted call has all of a Decision, if the time of the call is known here.
func TestTake_FixedWindow_NeedsNoLongReply(t *testing.T) {
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
		"aligned":            {"r", plain, []Policy{aligned}, nil},
		"not aligned":        {"r", plain, []Policy{FixedWindow{5, 10 * time.Second, false}}, nil},
		"of several":         {"d", plain, []Policy{aligned, FixedWindow{9, time.Hour, true}}, nil},
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

	for _, window := range []FixedWindow{aligned, {5, 10 * time.Second, false}} {
		b := newBench(t)
		b.now = time.UnixMicro(begin).Truncate(10*time.Second).UnixMicro() + 1_234_567
		l := New(b.client, "name", window)
		end := time.Duration(10_000_000-b.now%1000) * time.Microsecond
		if window.Aligned {
			end = 10*time.Second - 1_234_567*time.Microsecond
		}
		ask := func(permits int64) (brief bool, answer engine.Answer) {
			batch := b.ask(l, engine.Request{Permits: permits, Detail: true})
			return isBrief(batch.Reply), batch.Requests[0].Answer
		}
		brief, answer := ask(2)
		assert.True(t, brief)
		assert.Equal(t, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: end}, answer)
		brief, answer = ask(4)
		assert.False(t, brief)
		assert.Equal(t, engine.Answer{Limit: 5, Remaining: 3, RetryAfter: end, ResetAfter: end}, answer)
		// By a clock that is ahead the next window has begun.
		require.NoError(t, b.redis.Set(l.keys[0], fmt.Sprintf("a %d 1", (b.now+(end+window.Interval).Microseconds())/1000)))
		brief, answer = ask(1)
		assert.True(t, brief)
		assert.Equal(t, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: end + window.Interval}, answer)
	}
}
