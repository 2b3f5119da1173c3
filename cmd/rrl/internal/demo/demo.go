// Package demo simulates programs that use a few limiters of an in-memory Redis, to show watch without a
// Redis.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
)

// where replaces the address of a Redis.
const where = "demo, an in-memory Redis"

const step = 50 * time.Millisecond

// Run runs the callers and shows watch until ctx ends or count samples were shown; 0 means no limit.
func Run(ctx context.Context, out io.Writer, every time.Duration, count int, json bool) error {
	server, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("in-memory Redis: %w", err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	callers, err := newCallers(ctx, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	began := time.Now()
	for _, c := range callers {
		wg.Go(func() {
			eachStep(ctx, func() {
				if err := c.work(ctx, time.Since(began).Seconds()); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		})
	}
	wg.Go(func() { eachStep(ctx, func() { server.FastForward(step) }) }) // keys expire by this clock
	redis := &connect.Redis{Client: client, Where: where}
	watcher := &watch.Watcher{Reader: &inspect.Reader{Redis: redis, Now: time.Now}, Names: limiters, Given: given()}
	if err := watcher.Run(ctx, out, where, every, count, json); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// eachStep calls f in each step until ctx ends.
func eachStep(ctx context.Context, f func()) {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}
