// Package redisx runs scripts on Redis: alone, in pipelines, and with retries while a slot moves.
// It does not know limiters.
package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Script is a Lua script. No script is retryable: a call whose reply was lost may have run, and a
// second one would take permits twice.
type Script struct {
	text, sha1 string

	onceInit sync.Once
	once     *Script // see ForOnce
}

// NewScript returns a Script with this text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha1: hex.EncodeToString(sum[:])}
}

// Exec runs the script, after other calls if there are any. It is rueidis.Lua with a smaller stack: a
// goroutine that makes one call grows its stack once less.
func (s *Script) Exec(ctx context.Context, redis rueidis.Client, before []Call,
	keys, args []string) (rueidis.RedisMessage, error) {
	if len(before) > 0 {
		return s.execAfter(ctx, redis, before, keys, args)
	}
	ctx = paced(ctx, redis)
	call := redis.B().Evalsha().Sha1(s.sha1).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	message, err := redis.Do(ctx, call).ToMessage()
	if err != nil && unknown(err) {
		return redis.Do(ctx, s.eval(redis, keys, args)).ToMessage()
	}
	return message, err
}

// unknown reports whether a call failed since the server does not know its script.
func unknown(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && refused.IsNoScript()
}

// eval returns the call that sends the text of the script.
func (s *Script) eval(redis rueidis.Client, keys, args []string) rueidis.Completed {
	return redis.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Call is a call of a script.
type Call struct {
	Script     *Script
	Keys, Args []string
}

// execAfter runs the script after other calls, in one round trip. It sends the text of their scripts:
// one that the server does not know would be sent again, behind this one. The first error counts.
func (s *Script) execAfter(ctx context.Context, redis rueidis.Client, before []Call,
	keys, args []string) (rueidis.RedisMessage, error) {
	commands := make(rueidis.Commands, 0, len(before)+1)
	for _, c := range before {
		commands = append(commands, c.Script.eval(redis, c.Keys, c.Args))
	}
	var last rueidis.RedisResult
	for _, last = range DoMulti(ctx, redis, append(commands, s.eval(redis, keys, args))) {
		if err := last.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return rueidis.RedisMessage{}, err
		}
	}
	return last.ToMessage()
}

// ErrNoReply is returned if the Redis client or a callback of the program panicked, or ended its
// goroutine, during the call.
var ErrNoReply = errors.New("rratelimiter: the call that carried this request panicked, or ended its goroutine")

// longestPause bounds how long Again outlives the last caller.
const longestPause = 90 * time.Millisecond

// attendedPauses is the number of pauses of a call with a caller: together a quarter of a second.
const attendedPauses = 9

// untilEnd is the key of a context's value, with which a call is repeated until the context ends.
type untilEnd struct{}

// RetryUntilEnd returns a context with which Again has a call repeated until the context ends.
func RetryUntilEnd(ctx context.Context) context.Context {
	return context.WithValue(ctx, untilEnd{}, true)
}

// Again reports whether a call that a cluster rejected before it ran is to be made again, and pauses
// before it does. While the slot of its keys is moving to another node (TRYAGAIN), that is for a quarter
// of a second; see RetryUntilEnd. While nodes disagree about the slot, it is until the context ends.
// There are some ten attempts a second. The first call is attempt 0, and Again gets the number of the
// next one.
func Again(ctx context.Context, err error, attempt int) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	var redisErr *rueidis.RedisError // on the heap: errors.As gets its address
	switch {
	case errors.Is(err, errRedirected): // it has paused
	case !errors.As(err, &redisErr) || !redisErr.IsTryAgain():
		return false
	case attempt <= attendedPauses:
		time.Sleep(min(time.Millisecond<<(attempt-1), 64*time.Millisecond))
	case ctx.Value(untilEnd{}) != nil:
		time.Sleep(longestPause)
	default:
		return false
	}
	return true
}

// WrongType returns the first key that has another type than it should have, and that type, if err
// is the error of a script that met one.
func WrongType(ctx context.Context, redis rueidis.Client, err error, keys, types []string) (key, typ string) {
	var redisErr *rueidis.RedisError
	if !errors.As(err, &redisErr) || !strings.Contains(redisErr.Error(), "WRONGTYPE") {
		return "", ""
	}
	reads := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		// Not a read of rueidis' own builder, which would be sent again for as long as an outage lasts.
		reads[i] = redis.B().Arbitrary("TYPE").Keys(key).Build()
	}
	for i, result := range DoMulti(ctx, redis, reads) { // one call: a server may hang
		if typ, err := result.ToString(); err == nil && typ != types[i] && typ != "none" {
			return keys[i], typ
		}
	}
	return "", ""
}
