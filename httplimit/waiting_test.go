package httplimit_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestMaxWaiting_BoundReached_DeniesAtOnce: further requests get the denial that they would get without Wait.
func TestMaxWaiting_BoundReached_DeniesAtOnce(t *testing.T) {
	window := limit.FixedWindow{Permits: 1, Interval: 5 * time.Second}
	for name, limiter := range map[string]func(b *redistest.Fixture, client *rratelimiter.Client) httplimit.Limiter{
		"in the queue of a limiter": func(_ *redistest.Fixture, client *rratelimiter.Client) httplimit.Limiter {
			return limit.New(client, "a", window)
		},
		"of another kind": func(_ *redistest.Fixture, client *rratelimiter.Client) httplimit.Limiter {
			return fake(limit.New(client, "a", window).Take)
		},
		"in an outage": func(b *redistest.Fixture, client *rratelimiter.Client) httplimit.Limiter {
			b.Redis.SetError("LOADING")
			return limit.New(client, "a", window)
		},
	} {
		for bound, opts := range map[int][]httplimit.Option{3: {httplimit.MaxWaiting(3)}, httplimit.DefaultMaxWaiting: nil} {
			t.Run(name, func(t *testing.T) {
				guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
					var waits, denied atomic.Int64
					handler := httplimit.Middleware(httplimit.All(limiter(b, client)), append(opts, httplimit.Policies(window),
						httplimit.Wait(3*time.Hour), httplimit.OnFailure(httplimit.Local(1)))...)(new(ok))
					require.Equal(b, 200, serve(handler, request()).Code)
					var all sync.WaitGroup
					ctx, leave := context.WithCancel(b.Context())
					for range bound + 20 {
						all.Go(func() {
							begin := time.Now()
							w := serve(handler, request().WithContext(ctx))
							if time.Since(begin) > 0 {
								waits.Add(1)
							} else if assert.Equal(b, 429, w.Code) && assert.Equal(b, "5", w.Header().Get("Retry-After")) {
								denied.Add(1)
							}
						})
					}
					redistest.Pass(100 * time.Millisecond)
					assert.EqualValues(b, 20, denied.Load())
					leave()
					all.Wait()
					assert.EqualValues(b, bound, waits.Load())
					// The places of callers that have left are free again.
					begin := time.Now()
					assert.Equal(b, 200, serve(handler, request()).Code)
					assert.Positive(b, time.Since(begin))
				})
			})
		}
	}
}

// TestTransport_MaxWaiting_BoundReached_DoesNotSend: without the option any number waits, also for the end of a pause.
func TestTransport_MaxWaiting_BoundReached_DoesNotSend(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		paused := respond(http.StatusTooManyRequests, "Retry-After", "7")
		perTwoSeconds := limit.FixedWindow{Permits: 1, Interval: 2 * time.Second}
		for _, c := range []struct {
			name  string
			reply *http.Response
			opts  []httplimit.Option
			want  int64
		}{
			{"bounded", respond(200), []httplimit.Option{httplimit.MaxWaiting(2)}, 2},
			{"bounded with a wait", respond(200), []httplimit.Option{httplimit.MaxWaiting(2), httplimit.Wait(time.Minute)}, 2},
			{"bounded in a pause", paused, []httplimit.Option{httplimit.MaxWaiting(2)}, 2},
			{"unbounded", respond(200), nil, 5},
		} {
			transport := httplimit.Transport(upstream(func(*http.Request) *http.Response { return c.reply }),
				httplimit.Each(client, c.name, func(*http.Request) (string, error) { return "one", nil }, perTwoSeconds), c.opts...)
			_, err := call(b, transport, "one", time.Minute)
			require.NoError(b, err)
			var sent, crowded atomic.Int64
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if _, err := call(b, transport, "one", 2*time.Minute); err == nil {
						sent.Add(1)
					} else if assert.ErrorIs(b, err, httplimit.ErrNotSent) && assert.ErrorContains(b, err, "too many requests wait") {
						crowded.Add(1)
					}
				})
				synctest.Wait()
			}
			assert.Equal(b, 5-c.want, crowded.Load(), c.name)
			all.Wait()
			assert.Equal(b, c.want, sent.Load(), c.name)
		}
	})
}
