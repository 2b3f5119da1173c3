package rratelimitertest

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Env is a Redis in memory, a Client of it, and their clock.
type Env struct {
	Client *rratelimiter.Client // of Redis
	Clock  *Clock               // of Client and Redis
	Redis  *Redis               // in memory
}

// New returns an Env for a test, whose end closes it. The options are those of the Client, without
// [rratelimiter.WithClock]. To use an Env in a testing/synctest bubble, call New in the bubble.
func New(t testing.TB, opts ...rratelimiter.Option) *Env {
	t.Helper()
	clock := newClock()
	redis, err := start(clock)
	if err != nil {
		t.Fatalf("rratelimitertest: start the Redis in memory: %v", err)
	}
	t.Cleanup(func() {
		redis.close()
		if clock.bubble {
			time.Sleep(time.Minute) // goroutines that end after a time do, before the bubble does
		}
	})
	client := rratelimiter.New(redis.client, append([]rratelimiter.Option{rratelimiter.WithClock(clock.Now)}, opts...)...)
	opened, err := inside.Open(client)
	if err != nil {
		t.Fatalf("rratelimitertest: open the Client: %v", err)
	}
	clock.flush, clock.moved = client.Flush, opened.Engine.ClockMoved
	return &Env{Client: client, Clock: clock, Redis: redis}
}
