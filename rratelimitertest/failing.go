package rratelimitertest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// failingClient is a client whose calls fail while failure is set, except those of streams and of connections
// of their own.
type failingClient struct {
	rueidis.Client
	failure *atomic.Pointer[error]
}

func (c failingClient) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResult(*err)
	}
	return c.Client.Do(ctx, cmd)
}

func (c failingClient) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(*err)}, len(multi))
	}
	return c.Client.DoMulti(ctx, multi...)
}

func (c failingClient) DoCache(ctx context.Context, cmd rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResult(*err)
	}
	return c.Client.DoCache(ctx, cmd, ttl)
}

func (c failingClient) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(*err)}, len(multi))
	}
	return c.Client.DoMultiCache(ctx, multi...)
}

func (c failingClient) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return c.Client.Receive(ctx, subscribe, fn)
}
