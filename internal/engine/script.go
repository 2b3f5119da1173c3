package engine

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// Script is a Lua script. No script is retryable: a call whose reply was lost may have been carried out, and a second
// one would take permits twice.
type Script struct {
	lua        *rueidis.Lua
	text, sha1 string
}

// NewScript returns the Script of a text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{lua: rueidis.NewLuaScript(text), text: text, sha1: hex.EncodeToString(sum[:])}
}

// exec runs a script with a call of its own.
func (s *Script) exec(ctx context.Context, redis rueidis.Client, keys, args []string) (rueidis.RedisMessage, error) {
	return s.lua.Exec(ctx, redis, keys, args).ToMessage()
}

// slotMoves reports whether a call is to be repeated: a cluster refused the script unread, since the keys' slot is moving to another
// node. It waits a little before, up to a quarter of a second in all.
func slotMoves(ctx context.Context, err error, attempt int) bool {
	var redisErr *rueidis.RedisError
	if attempt > 7 || !errors.As(err, &redisErr) || !redisErr.IsTryAgain() || ctx.Err() != nil {
		return false
	}
	time.Sleep(time.Millisecond << attempt)
	return true
}
