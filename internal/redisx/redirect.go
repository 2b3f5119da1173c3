package redisx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Do runs a command, and repeats it as Again reports.
func Do(ctx context.Context, redis rueidis.Client,
	command rueidis.Completed) (message rueidis.RedisMessage, err error) {
	command = command.Pin()
	for attempt := 0; attempt == 0 || Again(ctx, err, attempt); attempt++ {
		message, err = redis.Do(paced(ctx, redis), command).ToMessage()
	}
	return message, err
}

// DoMulti runs commands in a pipeline.
func DoMulti(ctx context.Context, redis rueidis.Client, commands rueidis.Commands) []rueidis.RedisResult {
	return redis.DoMulti(paced(ctx, redis), commands...)
}

// Probe asks whether the node of a key can write: a call that only reads would succeed where writes fail. It
// sets a key of its own for a millisecond, unless there is one. The command may outlive ctx: its end would
// close the connection.
func Probe(ctx context.Context, redis rueidis.Client, key string) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if recover() != nil { // of the client
				done <- ErrNoReply
			}
		}()
		set := redis.B().Set().Key("{" + Tag(key) + "}:probe").Value("").Nx().PxMilliseconds(1).Build()
		_, err := Do(context.WithoutCancel(ctx), redis, set)
		done <- err
	}()
	select {
	case err := <-done:
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errRedirected is the error of a call that the nodes of a cluster have redirected for a second. It did
// not run. The next call has a date of its own, so that none is dated longer ago than that.
var errRedirected = errors.New("rratelimiter: the nodes of the cluster redirect the call to each other")

// quickSends is how often a call is sent without a pause. The client may not know yet that the slot
// has moved (MOVED), the slot may be about to move again (ASK), and the node may not know the script.
const quickSends = 6

// pacedSends is how often a call is sent after that, in a second.
const pacedSends = 16

// pacedContext slows down a call that is redirected again and again. rueidis follows redirections
// (MOVED, ASK) without a pause and without an end, but it asks for Err each time.
type pacedContext struct {
	context.Context
	sends atomic.Int32
}

// paced returns the context of one call to a Redis.
func paced(ctx context.Context, redis rueidis.Client) context.Context {
	if redis.Mode() != rueidis.ClientModeCluster {
		return ctx
	}
	return &pacedContext{Context: ctx}
}

// Err implements context.Context.
func (c *pacedContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	switch n := c.sends.Add(1) - quickSends; {
	case n > pacedSends:
		return errRedirected
	case n > 0:
		time.Sleep(min(time.Millisecond<<(n-1), longestPause))
	}
	return c.Context.Err()
}
