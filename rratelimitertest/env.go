package rratelimitertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// Env is a Redis in memory and a Client of it.
type Env struct {
	Client *rratelimiter.Client // of Redis
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
	return &Env{Client: rratelimiter.New(redis.client, opts...), Redis: redis}
}

// inBubble reports whether the goroutine is in a synctest bubble. Wait also panics, with another reason,
// if another goroutine of the bubble waits.
func inBubble() (in bool) {
	defer func() { in = recover() != "goroutine is not in a bubble" }()
	synctest.Wait()
	return true
}
