package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// pipelines counts the pipelines sent, and the scripts in them.
type pipelines struct {
	rueidis.Client
	sent, names atomic.Int64
}

func (p *pipelines) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	p.sent.Add(1)
	for _, command := range commands {
		if command.Commands()[0] == "EVALSHA" {
			p.names.Add(1)
		}
	}
	return p.Client.DoMulti(ctx, commands...)
}

// names is more than one pipeline holds.
const names = 320

// takeAtOnce takes a permit of each of very many limiters, whose rates are 1, 2, 3 and so on.
func takeAtOnce(b *fixture, c *rratelimiter.Client) (answers []rratelimiter.Decision, errs []error) {
	limiters := make([]*rratelimiter.Limiter, names)
	for i := range limiters {
		limiters[i] = c.Limiter(fmt.Sprint("limiter:", i))
		require.NoError(b, limiters[i].SetRate(b.Context(), rratelimiter.Rate{Permits: int64(i + 1), Interval: time.Minute}))
	}
	return takeOfEach(b, limiters)
}

// takeOfEach takes a permit of each limiter at once.
func takeOfEach(b *fixture, limiters []*rratelimiter.Limiter) (answers []rratelimiter.Decision, errs []error) {
	answers, errs = make([]rratelimiter.Decision, len(limiters)), make([]error, len(limiters))
	b.Latency.Store(int64(10 * time.Millisecond))
	var callers sync.WaitGroup
	for i, l := range limiters {
		callers.Go(func() { answers[i], errs[i] = l.Take(b.Context(), 1) })
	}
	callers.Wait()
	b.Latency.Store(0)
	return answers, errs
}

// TestPipeline_ManyNames_ShareIt: each call has its own answer. Calls of few names are sent alone.
func TestPipeline_ManyNames_ShareIt(t *testing.T) {
	for name, prepare := range map[string]func(b *fixture){
		"": func(*fixture) {},
		"after SCRIPT FLUSH": func(b *fixture) {
			require.NoError(b, b.Conn.Do(b.Context(), b.Conn.B().ScriptFlush().Build()).Error())
		},
	} {
		runWithRedis(t, name, func(b *fixture) {
			counting := &pipelines{Client: b.Conn}
			prepare(b)
			c := rratelimiter.New(counting)
			var callers sync.WaitGroup
			answers, errs := takeAtOnce(b, c)
			for i := range answers {
				require.NoError(b, errs[i])
				want := rratelimiter.Decision{
					Allowed: true, Remaining: int64(i), Limit: int64(i + 1), ResetAfter: answers[i].ResetAfter,
				}
				assert.Equal(b, want, answers[i])
			}
			assert.Greater(b, counting.names.Load(), int64(len(answers)/2), "names in pipelines")
			assert.Less(b, counting.sent.Load(), counting.names.Load()*4/5, "pipelines")

			before := counting.sent.Load()
			b.Take(c.Limiter("limiter:1"), 1)
			assert.Equal(b, before, counting.sent.Load(), "a lone call goes alone")

			// It does so while others wait for their turn without a call.
			ctx, cancel := context.WithCancel(b.Context())
			for i := range names / 10 {
				l := c.Limiter(fmt.Sprint("limiter:", i))
				callers.Go(func() { assert.ErrorIs(b, l.Acquire(ctx, int64(i+1)), context.Canceled) })
			}
			synctest.Wait()
			before = counting.sent.Load()
			b.Take(c.Limiter("limiter:100"), 1)
			assert.Equal(b, before, counting.sent.Load(), "a lone call goes alone")
			cancel()
			callers.Wait()
		})
	}
}

// clustered is a client of a Redis Cluster.
type clustered struct{ rueidis.Client }

func (clustered) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// TestPipeline_Cluster_IsNotUsed: there a pipeline ends when its slowest node has answered.
func TestPipeline_Cluster_IsNotUsed(t *testing.T) {
	withRedis(t, func(b *fixture) {
		counting := &pipelines{Client: b.Conn}
		_, errs := takeAtOnce(b, rratelimiter.New(clustered{counting}))
		for _, err := range errs {
			require.NoError(b, err)
		}
		assert.Zero(b, counting.sent.Load(), "pipelines")
	})
}
