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

// TestTake_OnePolicyGranted_GetsAShortReply: the state of the policy determines the whole Decision,
// if the Client's clock dates the call.
func TestTake_OnePolicyGranted_GetsAShortReply(t *testing.T) {
	aligned := FixedWindow{5, 10 * time.Second, true}
	for _, p := range everyPolicy {
		b := newBench(t)
		assert.True(t, isTold(b.ask(New(b.client, "name", p), engine.Request{Permits: 1, Detail: true}).Reply), "%T", p)
		server := rratelimiter.New(New(b.client, "name", p).client.Engine.Redis(), rratelimiter.WithServerTime())
		assert.False(t, isTold(b.ask(New(server, "server", p), engine.Request{Permits: 1, Detail: true}).Reply), "%T", p)
		two := b.ask(New(b.client, "two", p, FixedWindow{9, time.Second, true}), engine.Request{Permits: 1, Detail: true})
		assert.False(t, isTold(two.Reply), "%T", p)
	}
	for _, window := range []FixedWindow{aligned, {5, 10 * time.Second, false}} {
		b := newBench(t)
		b.now = time.UnixMicro(begin).Truncate(10*time.Second).UnixMicro() + 1_234_567
		l := New(b.client, "name", window)
		end := time.Duration(10_000_000-b.now%1000) * time.Microsecond
		if window.Aligned {
			end = 10*time.Second - 1_234_567*time.Microsecond
		}
		ask := func(permits int64) (told bool, answer engine.Answer) {
			batch := b.ask(l, engine.Request{Permits: permits, Detail: true})
			return isTold(batch.Reply), batch.Requests[0].Answer
		}
		told, answer := ask(2)
		assert.True(t, told)
		assert.Equal(t, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: end}, answer)
		told, answer = ask(4)
		assert.False(t, told)
		assert.Equal(t, engine.Answer{Limit: 5, Remaining: 3, RetryAfter: end, ResetAfter: end}, answer)
		// By a clock that is ahead the next window has begun.
		require.NoError(t, b.redis.Set(l.keys[0], fmt.Sprintf("a %d 1", (b.now+(end+window.Interval).Microseconds())/1000)))
		told, answer = ask(1)
		assert.True(t, told)
		assert.Equal(t, engine.Answer{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: end + window.Interval}, answer)
	}
}
