// Package redisx runs scripts on Redis: alone or in pipelines, and again while a slot moves. It
// knows no limiter.
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

// NewScript returns the Script of a text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{lua: rueidis.NewLuaScript(text), text: text, sha1: hex.EncodeToString(sum[:])}
}

// Exec runs the script with a call of its own.
func (s *Script) Exec(ctx context.Context, redis rueidis.Client, keys, args []string) (rueidis.RedisMessage, error) {
	return s.lua.Exec(ctx, redis, keys, args).ToMessage()
}

// ErrNoReply is the error of a call that did not return: the Redis client, or a function of the
// program, panicked or ended its goroutine.
var ErrNoReply = errors.New("rratelimiter: the call that carried this request panicked, or ended its goroutine")

// SlotMoves reports whether to repeat a call that a cluster refused before it ran, since the slot of
// its keys is moving to another node. It waits before it returns, up to a quarter of a second in
// all attempts, of which the first is 0.
func SlotMoves(ctx context.Context, err error, attempt int) bool {
	var redisErr *rueidis.RedisError
	if attempt > 7 || !errors.As(err, &redisErr) || !redisErr.IsTryAgain() || ctx.Err() != nil {
		return false
	}
	time.Sleep(time.Millisecond << attempt)
	return true
}
