package redisx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Do runs a command, and repeats it as Retry does.
func Do(ctx context.Context, redis rueidis.Client,
	command rueidis.Completed) (message rueidis.RedisMessage, err error) {
	command = command.Pin()
	err = Retry(ctx, func(int) error {
		message, err = redis.Do(paced(ctx, redis, false), command).ToMessage()
		return err
	})
	return message, err
}

// DoMulti runs commands in a pipeline.
func DoMulti(ctx context.Context, redis rueidis.Client, commands rueidis.Commands) []rueidis.RedisResult {
	return redis.DoMulti(paced(ctx, redis, false), commands...)
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

// errRedirected is the error of a call that the nodes of a cluster have redirected for a second, or that
// was redirected in a pipeline. It did not run. Retry makes another call, so that none is dated longer
// ago than that.
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
	unfollowed bool // the first redirection ends the call
	sends      atomic.Int32
}

// paced returns the context of one call to a Redis, or of a pipeline that is unfollowed. If a node
// redirects a call of such a pipeline, the others do not wait for that.
func paced(ctx context.Context, redis rueidis.Client, unfollowed bool) context.Context {
	if redis.Mode() != rueidis.ClientModeCluster {
		return ctx
	}
	return &pacedContext{Context: ctx, unfollowed: unfollowed}
}

// Err implements context.Context.
func (c *pacedContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	sends := c.sends.Add(1)
	switch n := sends - quickSends; {
	case n > pacedSends || c.unfollowed && sends > 1:
		return errRedirected
	case n > 0:
		time.Sleep(min(time.Millisecond<<(n-1), longestPause))
	}
	return c.Context.Err()
}
