// Package redisx runs scripts on Redis: alone, in pipelines, and with retries while a slot moves.
// It does not know limiters.
package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// Script is a Lua script. No script is retryable: a call whose reply was lost may have run, and a
// second one would take permits twice.
type Script struct {
	lua        *rueidis.Lua
	text, sha1 string
}

// NewScript returns a Script with this text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{lua: rueidis.NewLuaScript(text), text: text, sha1: hex.EncodeToString(sum[:])}
}

// Exec runs the script in a call of its own.
func (s *Script) Exec(ctx context.Context, redis rueidis.Client, keys, args []string) (rueidis.RedisMessage, error) {
	return s.lua.Exec(ctx, redis, keys, args).ToMessage()
}

// ErrNoReply is returned if the Redis client or a callback of the program panicked, or ended its
// goroutine, during the call.
var ErrNoReply = errors.New("rratelimiter: the call that carried this request panicked, or ended its goroutine")

// longestPause bounds how long SlotMoves outlives the last caller.
const longestPause = 64 * time.Millisecond

// untilEnd is the key of a context's value, by which SlotMoves retries until the context ends.
type untilEnd struct{}

// RetryUntilEnd returns a context with which SlotMoves retries until it ends.
func RetryUntilEnd(ctx context.Context) context.Context {
	return context.WithValue(ctx, untilEnd{}, true)
}

// SlotMoves reports whether to retry a call that a cluster rejected before it ran, because the slot
// of its keys is moving to another node. It sleeps before it returns, for a quarter of a second in
// all attempts together; see RetryUntilEnd. The first attempt is 0.
func SlotMoves(ctx context.Context, err error, attempt int) bool {
	var redisErr *rueidis.RedisError
	if !errors.As(err, &redisErr) || !redisErr.IsTryAgain() || ctx.Err() != nil {
		return false
	}
	if attempt > 8 && ctx.Value(untilEnd{}) == nil {
		return false
	}
	time.Sleep(min(time.Millisecond<<min(attempt, 8), longestPause))
	return true
}
