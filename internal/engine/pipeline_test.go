package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// sending records the pipelines that are sent.
type sending struct {
	rueidis.Client
	mu        sync.Mutex
	pipelines [][]string // the keys of each command, with spaces between them
	instead   func(sent []string, send func() []rueidis.RedisResult) []rueidis.RedisResult
}

func (c *sending) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	var sent []string
	for _, command := range commands {
		words := command.Commands()
		keys, _ := strconv.Atoi(words[2])
		sent = append(sent, strings.Join(words[3:3+keys], " "))
	}
	c.mu.Lock()
	c.pipelines = append(c.pipelines, sent)
	instead := c.instead
	c.mu.Unlock()
	send := func() []rueidis.RedisResult { return c.Client.DoMulti(ctx, commands...) }
	if instead != nil {
		return instead(sent, send)
	}
	return send()
}

// names is how many names each pipeline was for.
func (c *sending) names() (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sent := range c.pipelines {
		sizes = append(sizes, len(strings.Fields(strings.Join(sent, " "))))
	}
	return sizes
}

// askAll takes a permit of each of so many windows at the same time, and returns the error of each
// call.
func askAll(b *fixture, g *Engine, names int, ctx context.Context, limit int64) []error {
	errs := make([]error, names)
	var callers sync.WaitGroup
	for i := range names {
		callers.Go(func() { _, errs[i] = open(g, fmt.Sprint("limiter:", i), limit, time.Minute).Try(ctx, Ask{Permits: 1}) })
	}
	callers.Wait()
	return errs
}

// contexts is those with which callers wait for their call, and those with which they can leave it.
func contexts(b *fixture) map[string]context.Context {
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	return map[string]context.Context{"without an end": context.WithoutCancel(b.Context()), "cancellable": ctx}
}

func TestPipeline_ManyCalls_IsBounded(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for name, ctx := range contexts(b) {
			conn := &sending{Client: b.Conn}
			b.Latency.Store(int64(10 * time.Millisecond))
			errs := askAll(b, New(Settings{Redis: conn}), 20*redisx.MaxPipelined, ctx, 1)
			for _, err := range errs {
				require.NoError(b, err)
			}
			assert.Equal(b, redisx.MaxPipelined, slices.Max(conn.names()), name)
		}
	})
}

// TestPipeline_CallersLeave_PermitsReturn: the other callers of the pipeline get their answers.
func TestPipeline_CallersLeave_PermitsReturn(t *testing.T) {
	withRedis(t, func(b *fixture) {
		g := b.engine()
		b.Latency.Store(int64(10 * time.Millisecond))
		const names = 3 * redisx.MaxPipelined
		leaves, leave := context.WithTimeout(b.Context(), 15*time.Millisecond) // their calls are at Redis then
		defer leave()
		stays, cancel := context.WithCancel(b.Context())
		defer cancel()
		began := time.Now()
		var granted [names]atomic.Int64
		var callers sync.WaitGroup
		for i := range names {
			callers.Go(func() {
				l, ctx := open(g, fmt.Sprint("limiter:", i), 3, time.Minute), stays
				if i%2 == 0 {
					ctx = leaves
				}
				for range 3 {
					_, err := l.Try(ctx, Ask{Permits: 1})
					if err == nil {
						granted[i].Add(1)
					} else if assert.ErrorIs(b, err, context.DeadlineExceeded) {
						assert.Equal(b, 15*time.Millisecond, time.Since(began), "at once")
						assert.Zero(b, i%2)
						return
					}
				}
			})
		}
		callers.Wait()
		pass(10 * time.Second) // permits for callers that left return
		b.Latency.Store(0)
		for i := range names {
			used, _ := strconv.ParseInt(b.Redis.HGet(fmt.Sprint("limiter:", i), "used"), 10, 64)
			assert.Equal(b, granted[i].Load(), used, i)
		}
		assert.True(b, g.Idle())
	})
}

// TestPipeline_ConnectionEndsAGoroutine_FailsItsCallsAlone: no caller waits forever.
func TestPipeline_ConnectionEndsAGoroutine_FailsItsCallsAlone(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for context, ctx := range contexts(b) {
			conn := &sending{Client: b.Conn}
			g := New(Settings{Redis: conn})
			b.Latency.Store(int64(10 * time.Millisecond))
			var failed atomic.Bool
			conn.instead = func(sent []string, send func() []rueidis.RedisResult) []rueidis.RedisResult {
				if len(strings.Fields(strings.Join(sent, " "))) > 1 && !failed.Swap(true) {
					runtime.Goexit()
				}
				return send()
			}
			errs := askAll(b, g, 4*redisx.MaxPipelined, ctx, 1)
			count := 0
			for i, err := range errs {
				if err != nil {
					assert.ErrorIs(b, err, redisx.ErrNoReply)
					assert.ErrorContains(b, err, fmt.Sprint("limiter:", i))
					count++
				}
			}
			assert.Positive(b, count, context)
			assert.LessOrEqual(b, count, redisx.MaxPipelined, context)
			assert.True(b, g.Idle(), context)
		}
	})
}

func TestPipeline_OneNameFails_OthersSucceed(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for name, ctx := range contexts(b) {
			g := b.engine()
			b.Redis.Set("limiter:7", "no hash")
			b.Latency.Store(int64(10 * time.Millisecond))
			errs := askAll(b, g, 2*redisx.MaxPipelined, ctx, 10)
			for i, err := range errs {
				if i == 7 {
					assert.ErrorContains(b, err, "limiter:7: ", name)
					assert.ErrorContains(b, err, "WRONGTYPE", name)
				} else {
					assert.NoError(b, err, fmt.Sprint(name, i))
				}
			}
			b.Latency.Store(0)
			assert.True(b, g.Idle())
		}
	})
}

// twice is a window whose script is asked a second time.
type twice struct{ *window }

func (l twice) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	if len(b.Args) == 5 {
		b.Args = append(b.Args, "again")
		return true, nil
	}
	return l.window.Answer(b, reply)
}

func TestPipeline_ScriptsNeedMoreCalls_AreRepeated(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for kind, ctx := range contexts(b) {
			g := b.engine()
			b.Latency.Store(int64(10 * time.Millisecond))
			var callers sync.WaitGroup
			for i := range 2 * redisx.MaxPipelined {
				callers.Go(func() {
					l := open(g, fmt.Sprint(kind, i), 10, time.Minute)
					l.Protocol = twice{l}
					result, err := l.Try(ctx, Ask{Permits: 1})
					assert.NoError(b, err)
					assert.True(b, result.Allowed)
					assert.EqualValues(b, 8, result.Remaining, "after the second call")
				})
			}
			callers.Wait()
			b.Latency.Store(0)
			assert.True(b, g.Idle())
		}
	})
}

// asksWhy is a window that asks Redis for a while what an error is about.
type asksWhy struct{ *window }

func (l asksWhy) Explain(ctx context.Context, err error) error {
	pass(time.Second)
	return l.window.Explain(ctx, err)
}

func TestPipeline_CallerExplainsItsError_OthersDoNotWait(t *testing.T) {
	withRedis(t, func(b *fixture) {
		for kind, ctx := range contexts(b) {
			g := b.engine()
			b.Latency.Store(int64(10 * time.Millisecond))
			began := time.Now()
			var callers sync.WaitGroup
			for i := range 2 * redisx.MaxPipelined {
				callers.Go(func() {
					l := open(g, fmt.Sprint(kind, i), 10, time.Minute)
					l.Protocol = asksWhy{l}
					if i%2 == 0 {
						b.Redis.Set(l.ID, "no hash")
					}
					_, err := l.Try(ctx, Ask{Permits: 1})
					if took := time.Since(began); i%2 == 0 {
						assert.ErrorContains(b, err, "WRONGTYPE")
						assert.GreaterOrEqual(b, took, time.Second)
					} else {
						assert.NoError(b, err)
						assert.Less(b, took, time.Second)
					}
				})
			}
			callers.Wait()
			b.Latency.Store(0)
		}
	})
}
