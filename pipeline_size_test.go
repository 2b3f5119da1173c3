package rratelimiter

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		conn := &largest{Client: b.conn}
		_, errs := takeAtOnce(b, New(conn))
		for _, err := range errs {
			require.NoError(b, err)
		}
		assert.EqualValues(b, pipelined, conn.size.Load())
	})
}
