package network_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The server runs a call and its reply is lost. The permits are taken once: the call is not sent
// again however its connection ends.
func TestNetwork_ReplyLost_CallIsSentOnce(t *testing.T) {
	t.Parallel()
	l := newLink(t, -1)
	const permits = 7
	client := rratelimiter.New(l.redis)
	// Redis knows the scripts: a call that has to send a text needs a reply first.
	require.NoError(t, l.limiter.Acquire(t.Context(), 1))
	_, err := l.limiter.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	for i, call := range []string{"Acquire", "TryAcquireWithin", "Take", "TryAcquire"} {
		for _, end := range []string{"the context", "the connection"} {
			t.Run(call+" ended by "+end, func(t *testing.T) {
				l.awaitReplies(t) // the connections of the case before are replaced
				name := fmt.Sprintf("%s: %s by %s", name, call, end)
				limiter, direct := client.Limiter(name), rratelimiter.New(l.bypass).Limiter(name)
				require.NoError(t, direct.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: time.Hour}))
				require.NoError(t, limiter.Acquire(t.Context(), 1))
				require.NoError(t, client.Flush(t.Context())) // the count of drift, which hides a second call
				taken := func() int64 {
					free := redistest.Available(t, direct)
					return rate - 1 - free
				}
				restore := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan error, 1)
				go func() {
					_, err := everycall.Acquire(ctx, limiter, i, permits, time.Minute)
					answer <- err
				}()
				require.Eventually(t, func() bool { return taken() > 0 }, late, time.Millisecond, "the server runs the call")
				if end == "the context" {
					cancel()
					require.ErrorIs(t, <-answer, context.Canceled)
					restore()
				} else {
					restore() // which closes the connection
					require.Equal(t, "cut", classify(<-answer))
				}
				// rueidis connects again for the next call, and sends only that.
				l.awaitReplies(t)
				require.EqualValues(t, permits, taken(), "nothing was released or taken twice")
			})
		}
	}
}

// Calls for many names are sent in pipelines. If the replies are lost, each call has its error and
// none is sent again.
func TestNetwork_RepliesOfPipelineLost_CallsAreSentOnce(t *testing.T) {
	t.Parallel()
	l := newLink(t, -1)
	const names, permits = 200, 7
	client := rratelimiter.New(l.redis)
	limiters := make([]*rratelimiter.Limiter, names)
	for i := range limiters {
		limiters[i] = client.Limiter(fmt.Sprint(name, ":", i))
		require.NoError(t, limiters[i].SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: time.Hour}))
	}
	// Since a call whose context can end, rueidis pipelines calls while it waits for replies.
	require.NoError(t, l.redis.Do(t.Context(), l.redis.B().Ping().Build()).Error())
	errs := make(chan error, names)
	takeOfAll := func() {
		for _, limiter := range limiters {
			go func() {
				_, err := limiter.TryAcquire(context.Background(), permits)
				errs <- err
			}()
		}
	}
	takeOfAll()
	for range limiters {
		require.NoError(t, <-errs)
	}
	require.NoError(t, client.Flush(t.Context())) // the counts of drift, which hide a second call
	before := l.server.Calls(t, "evalsha")
	restore := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)
	takeOfAll()
	require.Eventually(t, func() bool { return l.server.Calls(t, "evalsha") == before+names }, givenUp/2, time.Millisecond,
		"the server runs the calls")
	restore() // which closes the connection
	for range limiters {
		err := <-errs
		require.Error(t, err)
		require.Equal(t, "cut", classify(err))
	}

	l.awaitReplies(t)
	for _, limiter := range limiters {
		require.EqualValues(t, rate-2*permits, redistest.Available(t, limiter))
	}
}
