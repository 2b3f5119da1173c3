package rratelimitertest

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// Env is a Redis in memory, a Client of it, and their clock.
type Env struct {
	Client *rratelimiter.Client // of Redis
	Clock  *Clock               // of Client and Redis
	Redis  *Redis               // in memory
}

// New returns an Env for a test in a testing/synctest bubble, whose end closes it. The options are those
// of the Client.
func New(t testing.TB, opts ...rratelimiter.Option) *Env {
	t.Helper()
	if !inBubble() {
		t.Fatal("rratelimitertest: New: the test is in no bubble of testing/synctest: run it by synctest.Test")
	}
	redis, err := start()
	if err != nil {
		t.Fatalf("rratelimitertest: start the Redis in memory: %v", err)
	}
	t.Cleanup(func() {
		redis.close()
		time.Sleep(time.Minute) // goroutines that end after a time do, before the bubble does
	})
	return &Env{
		Client: rratelimiter.New(redis.client, opts...), Clock: &Clock{advancing: make(chan struct{}, 1)}, Redis: redis,
	}
}
