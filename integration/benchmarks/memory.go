package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// memory is the memory of Redis for a million grants, in bytes per grant, by contender and round.
type memory map[string][]float64

const memoryCallers = 256

func (b *bench) memory(ctx context.Context, grants int64) (memory, error) {
	m := make(memory)
	for range b.rounds {
		for _, s := range contenders {
			if s.key != "ours" && s.key != "script" {
				continue
			}
			bytes, err := b.memoryOf(ctx, s, grants)
			if err != nil {
				return nil, fmt.Errorf("memory of %d grants, %s: %w", grants, s.title, err)
			}
			m[s.key] = append(m[s.key], bytes/float64(grants))
		}
	}
	return m, nil
}

func (b *bench) memoryOf(ctx context.Context, s contender, grants int64) (bytes float64, err error) {
	if _, err := b.redissonScript(ctx); err != nil {
		return 0, err
	}
	if err := b.server.clear(ctx); err != nil {
		return 0, err
	}
	l := load{addr: b.redis.Addr(), callers: memoryCallers, names: names(1), maxPermits: 1, limit: generous,
		expect: allGranted}
	session, err := s.open(context.WithoutCancel(ctx), b, l)
	if session != nil {
		defer session.close()
	}
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(grants)
	errs := make([]error, l.callers)
	var running sync.WaitGroup
	for i := range l.callers {
		running.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				granted, err := session.take(ctx, i, 0, 1)
				if err == nil && !granted {
					err = errors.New("a call was denied")
				}
				errs[i] = err
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if err := b.server.account(ctx, l.names, l.limit, grants); err != nil {
		return 0, err
	}
	keys, err := b.server.redis.Do(ctx, b.server.redis.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		n, err := b.server.redis.Do(ctx, b.server.redis.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64()
		if err != nil {
			return 0, err
		}
		bytes += float64(n)
	}
	return bytes, nil
}
