package rratelimitertest

import (
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// Redis is the Redis in memory of an Env.
type Redis struct {
	server *miniredis.Miniredis
	client failingClient
}

// start starts a Redis that follows the clock of the bubble.
func start() (*Redis, error) {
	r := &Redis{server: miniredis.NewMiniRedis()}
	r.server.ClockTTL(true)
	client, err := memredis.Connect(r.server)
	if err == nil {
		copyTakesTTL(r.server)
	}
	r.client = failingClient{client, new(atomic.Pointer[error])}
	return r, err
}

func (r *Redis) close() {
	r.client.Close()
	r.server.Close()
}

// Client returns the rueidis client of the Env, for a program that creates its own
// rratelimiter.Client or uses Redis for other data. Fail affects it. The end of the test closes it.
func (r *Redis) Client() rueidis.Client { return r.client }

// Fail makes every call fail with err at once, until Recover. The errors of the limiters wrap err.
// Nothing reaches the Redis in memory, and it keeps its data. Calls in flight complete, and those of
// Dedicate and DoStream of Client go on. A nil err is Recover.
func (r *Redis) Fail(err error) {
	if err == nil {
		r.client.failure.Store(nil)
		return
	}
	r.client.failure.Store(&err)
}

// Recover ends Fail.
func (r *Redis) Recover() { r.Fail(nil) }
