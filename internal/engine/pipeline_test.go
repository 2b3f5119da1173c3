package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// largest keeps the size of the largest pipeline.
type largest struct {
	rueidis.Client
	size atomic.Int64
}

func (c *largest) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for {
		size := c.size.Load()
		if int64(len(commands)) <= size || c.size.CompareAndSwap(size, int64(len(commands))) {
			return c.Client.DoMulti(ctx, commands...)
		}
	}
}

// TestAPipelineHoldsSoManyCallsAtMost: nobody waits for more of them than that.
func TestAPipelineHoldsSoManyCallsAtMost(t *testing.T) {
	inBubble(t, func(b *bubble) {
		conn := &largest{Client: b.Conn}
		g := New(Settings{Redis: conn})
		b.Latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		for i := range 20 * pipelined {
			callers.Go(func() {
				_, err := open(g, fmt.Sprint("limiter:", i), 1, time.Minute).Try(b.Context(), Ask{Permits: 1})
				assert.NoError(b, err)
			})
		}
		callers.Wait()
		assert.EqualValues(b, pipelined, conn.size.Load())
	})
}
