package network_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// The server runs a call and its reply is lost. The permits are taken once, the call is not sent
// again however its connection ends, and one interval later the permits are free.
func TestNetwork_ReplyLost_CallIsSentOnce(t *testing.T) {
	l := newLink(t, 1)
	const permits = 7
	for i, name := range []string{"Acquire", "TryAcquireWithin", "Take", "TryAcquire"} {
		for _, end := range []string{"the context", "the connection"} {
			t.Run(name+" ended by "+end, func(t *testing.T) {
				l.awaitReplies(t) // the connections of the case before are replaced
				before, _ := l.acquires.calls()
				restore := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan error, 1)
				go func() {
					_, err := l.books.Time("go", permits, func() (bool, error) {
						return everycall.Acquire(ctx, l.limiter, i, permits, time.Minute)
					})
					answer <- err
				}()
				taken := func() int64 {
					free, err := l.direct.AvailablePermits(t.Context())
					require.NoError(t, err)
					return rate - free
				}
				require.Eventually(t, func() bool { return taken() > 0 }, late, time.Millisecond, "the server runs the call")
				require.EqualValues(t, permits, taken())
				acted := time.Now()
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
				if time.Since(acted) < interval/2 {
					require.EqualValues(t, permits, taken(), "nothing was released or taken twice")
				}
				after, again := l.acquires.calls()
				require.Equal(t, 1, after-before, "one call reached Redis")
				require.Zero(t, again)

				time.Sleep(time.Until(acted.Add(interval)))
				require.Zero(t, taken(), "the permits are free")
			})
		}
	}
	l.end(t, "replies lost, 8 calls")
}

// Calls for many names are sent in pipelines. If the replies are lost, each call has its error and
// none is sent again.
func TestNetwork_RepliesOfPipelineLost_CallsAreSentOnce(t *testing.T) {
	l := newLink(t, 1)
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
	start, _ := l.acquires.calls()
	arrived := func(calls int) func() bool {
		return func() bool {
			now, _ := l.acquires.calls()
			return now-start == calls
		}
	}
	takeOfAll()
	for range limiters {
		require.NoError(t, <-errs)
	}
	require.Eventually(t, arrived(names), late, time.Millisecond, "the monitor follows")
	restore := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)
	takeOfAll()
	require.Eventually(t, arrived(2*names), givenUp/2, time.Millisecond, "the server runs the calls")
	restore() // which closes the connection
	for range limiters {
		err := <-errs
		require.Error(t, err)
		require.Equal(t, "cut", classify(err))
	}

	l.awaitReplies(t)
	for _, limiter := range limiters {
		free, err := limiter.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, rate-2*permits, free)
	}
	require.True(t, arrived(2*names)(), "calls were sent again")
}
