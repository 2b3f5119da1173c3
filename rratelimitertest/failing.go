package rratelimitertest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// failing is a client whose calls fail while failure is set.
type failing struct {
	rueidis.Client
	failure *atomic.Pointer[error]
}

func (c failing) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResult(*err)
	}
	return c.Client.Do(ctx, cmd)
}

func (c failing) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return failed(len(multi), *err)
	}
	return c.Client.DoMulti(ctx, multi...)
}

func (c failing) DoCache(ctx context.Context, cmd rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResult(*err)
	}
	return c.Client.DoCache(ctx, cmd, ttl)
}

func (c failing) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return failed(len(multi), *err)
	}
	return c.Client.DoMultiCache(ctx, multi...)
}

func (c failing) DoStream(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResultStream {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResultStream(*err)
	}
	return c.Client.DoStream(ctx, cmd)
}

func (c failing) DoMultiStream(ctx context.Context, multi ...rueidis.Completed) rueidis.MultiRedisResultStream {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResultStream(*err)
	}
	return c.Client.DoMultiStream(ctx, multi...)
}

func (c failing) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return c.Client.Receive(ctx, subscribe, fn)
}

func (c failing) Dedicated(fn func(rueidis.DedicatedClient) error) error {
	return c.Client.Dedicated(func(d rueidis.DedicatedClient) error { return fn(failingDedicated{d, c.failure}) })
}

func (c failing) Dedicate() (rueidis.DedicatedClient, func()) {
	d, cancel := c.Client.Dedicate()
	return failingDedicated{d, c.failure}, cancel
}

func (c failing) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for address, node := range nodes {
		nodes[address] = failing{node, c.failure}
	}
	return nodes
}

// failingDedicated is failing for the client of one connection.
type failingDedicated struct {
	rueidis.DedicatedClient
	failure *atomic.Pointer[error]
}

func (c failingDedicated) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return rueidis.NewErrorResult(*err)
	}
	return c.DedicatedClient.Do(ctx, cmd)
}

func (c failingDedicated) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if err := c.failure.Load(); err != nil {
		return failed(len(multi), *err)
	}
	return c.DedicatedClient.DoMulti(ctx, multi...)
}

func (c failingDedicated) Receive(ctx context.Context, subscribe rueidis.Completed,
	fn func(rueidis.PubSubMessage)) error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return c.DedicatedClient.Receive(ctx, subscribe, fn)
}

func failed(calls int, err error) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, calls)
	for i := range results {
		results[i] = rueidis.NewErrorResult(err)
	}
	return results
}
