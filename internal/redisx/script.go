// Package redisx runs scripts on Redis: alone, in pipelines, and with retries while a slot moves.
// It does not know limiters.
package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// Call is a call of a script.
type Call struct {
	Script     *Script
	Keys, Args []string
}

// Exec makes the call, after other calls if there are any. It is rueidis.Lua with a smaller stack: a
// goroutine that makes one call grows its stack once less.
func (c *Call) Exec(ctx context.Context, redis rueidis.Client, before []Call) (rueidis.RedisMessage, error) {
	if len(before) > 0 {
		return c.execAfter(ctx, redis, before)
	}
	ctx = paced(ctx, redis)
	evalsha := redis.B().Evalsha().Sha1(c.Script.sha1).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
	message, err := redis.Do(ctx, evalsha).ToMessage()
	if err != nil {
		if refused, ok := rueidis.IsRedisErr(err); ok && refused.IsNoScript() {
			return redis.Do(ctx, c.eval(redis)).ToMessage()
		}
	}
	return message, err
}

// Refused reports whether the rights of the user do not allow a call, or a command of its script.
func Refused(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && (strings.HasPrefix(refused.Error(), "NOPERM") || strings.Contains(refused.Error(), "ACL failure"))
}

// eval returns the command that sends the text of the script.
func (c *Call) eval(redis rueidis.Client) rueidis.Completed {
	return redis.B().Eval().Script(c.Script.text).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// execAfter makes the call after other calls, in one round trip. It sends the text of their scripts:
// one that the server does not know would be sent again, behind this one. The first error counts.
func (c *Call) execAfter(ctx context.Context, redis rueidis.Client, before []Call) (rueidis.RedisMessage, error) {
	commands := make(rueidis.Commands, 0, len(before)+1)
	for i := range before {
		commands = append(commands, before[i].eval(redis))
	}
	var last rueidis.RedisResult
	for _, last = range DoMulti(ctx, redis, append(commands, c.eval(redis))) {
		if err := last.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return rueidis.RedisMessage{}, err
		}
	}
	return last.ToMessage()
}

// ErrNoReply is returned if the Redis client or a callback of the program panicked, or ended its
// goroutine, during the call.
var ErrNoReply = errors.New("rratelimiter: the call that carried this request panicked, or ended its goroutine")

// ReplyLost reports whether a call may have run that has failed with an error. It has not if Redis has refused it, or if
// it was not sent. A call in flight fails with whatever ended its connection: a bare timeout, an alert of TLS, an error
// of the program's credentials.
func ReplyLost(err error) bool {
	if err == nil {
		return false // before the allocations for errors.As
	}
	var refused *rueidis.RedisError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		// Redis has refused other credentials on the connection of the call, which rueidis ends then.
		return codeOf(refused.Error()) == "WRONGPASS" || strings.HasPrefix(refused.Error(), "AUTH ")
	case errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, errRedirected):
		return false
	case errors.As(err, &network):
		return network.Op != "dial"
	}
	return true
}

// longestPause bounds how long Again outlives the last caller.
const longestPause = 90 * time.Millisecond

// attendedPauses is the number of pauses of a call with a caller: together a quarter of a second.
const attendedPauses = 9

// untilEndKey is the key of a context's value, with which a call is repeated until the context ends.
type untilEndKey struct{}

// RetryUntilEnd returns a context with which Again has a call repeated until the context ends.
func RetryUntilEnd(ctx context.Context) context.Context {
	return context.WithValue(ctx, untilEndKey{}, true)
}

// Again reports whether a call that a cluster rejected before it ran is to be made again, and pauses before
// it does. While the slot of its keys is moving to another node (TRYAGAIN), that is for a quarter of a
// second; see RetryUntilEnd. While nodes disagree about the slot, it is until the context ends. After that
// quarter of a second there are some ten attempts a second. The first call is attempt 0, and Again gets the
// number of the next one.
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
	case ctx.Value(untilEndKey{}) != nil:
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

// OnceFor is how long a server knows that a call of Once has run.
const OnceFor = 30 * time.Second

// ErrRanBefore is the error of a call of Once that has run before: this one has changed nothing.
var ErrRanBefore = errors.New("rratelimiter: the call has run before")

type onceKey struct{}

// Once returns a context for calls of scripts that may be made again after their reply was lost. Each
// script runs once for an id and its keys, and leaves a key that expires. The caller makes no call for
// the id later than OnceFor after the first one.
func Once(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, onceKey{}, id)
}

// ranBefore is the reply of a script that has run before.
const ranBefore = "RAN_BEFORE"

// A script that only asks for another call, or stops, has changed nothing that must not be changed
// again: all reads of a script come before its writes. Its reply is a list that does not begin with 0,
// or an error of Redis. The key of the call is the last one. It is set first, so that a server that
// rejects writes rejects the whole script.
const (
	onceHead = `local ran = KEYS[#KEYS]
if not redis.call('SET', ran, '', 'NX', 'PX', '30000') then
  return redis.status_reply('` + ranBefore + `')
end
local ok, reply = pcall(function(KEYS)
`
	onceTail = `
end, {unpack(KEYS, 1, #KEYS - 1)})
if not ok then
  redis.call('UNLINK', ran)
  return type(reply) == 'table' and reply or redis.error_reply(tostring(reply))
end
if type(reply) == 'table' and reply[1] ~= 0 then
  redis.call('UNLINK', ran)
end
return reply
`
)

// ForOnce returns the call for a context, which is another one for that of Once.
func (c Call) ForOnce(ctx context.Context) Call {
	id, ok := ctx.Value(onceKey{}).(string)
	if !ok {
		return c
	}
	s := c.Script
	s.onceInit.Do(func() { s.once = NewScript(onceHead + s.text + onceTail) })
	return Call{s.once, append(slices.Clip(c.Keys), Beside(Settled, c.Keys[0], id, s.sha1)), c.Args}
}

// RanBefore returns ErrRanBefore if that is what a script has replied.
func RanBefore(message rueidis.RedisMessage) error {
	if !message.IsString() {
		return nil
	}
	if text, err := message.ToString(); err != nil || text != ranBefore {
		return nil //nolint:nilerr // the reply is one of the script's own
	}
	return ErrRanBefore
}

// unable are the codes of the error replies of a server that cannot serve. It starts, runs a script for too
// long, is a replica, cannot write, or does not have the slot.
var unable = []string{"LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "OOM", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN"}

// codeOf returns the code that the text of an error reply begins with.
func codeOf(reply string) string {
	// rueidis removes "ERR ". Redis 6 names the error of a command in a script at the end.
	if _, inner, ok := strings.Cut(reply, ": -"); ok && strings.HasPrefix(reply, "Error running script") {
		reply = inner
	}
	code, _, _ := strings.Cut(reply, " ")
	return code
}

// isUnable reports whether the text of an error reply says that its server cannot serve.
func isUnable(reply string) bool {
	return slices.Contains(unable, codeOf(reply)) || strings.HasPrefix(reply, "max number of clients reached")
}

// isFromReplica reports whether an error is a reply that only a replica sends.
func isFromReplica(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && slices.Contains([]string{"READONLY", "MASTERDOWN"}, codeOf(reply.Error()))
}

// Answers reports whether an error is the reply of a server that can serve. It refused this call alone.
func Answers(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && !reply.IsNil() && !isUnable(reply.Error())
}

// Reply reads the elements of an array in their order. An element that is absent or of another type
// is its zero value, and makes the reply bad.
type Reply struct {
	message rueidis.RedisMessage
	rest    []rueidis.RedisMessage
	bad     bool
}

// ReadReply returns a Reply that reads a message from its first element.
func ReadReply(message rueidis.RedisMessage) Reply {
	elements, err := message.ToArray()
	return Reply{message, elements, err != nil}
}

// Next reads an element of any type.
func (r *Reply) Next() (element rueidis.RedisMessage) {
	if len(r.rest) == 0 {
		r.bad = true
		return element
	}
	element, r.rest = r.rest[0], r.rest[1:]
	return element
}

// Number reads a number.
func (r *Reply) Number() int64 {
	element := r.Next()
	n, err := element.AsInt64()
	r.bad = r.bad || err != nil
	return n
}

// Text reads a text.
func (r *Reply) Text() string {
	element := r.Next()
	text, err := element.ToString()
	r.bad = r.bad || err != nil
	return text
}

// Len returns the number of elements that are not read.
func (r *Reply) Len() int { return len(r.rest) }

// Fail makes the reply bad.
func (r *Reply) Fail() { r.bad = true }

// OK reports whether the reply is not bad.
func (r *Reply) OK() bool { return !r.bad }

// Ended reports whether the reply had all elements that were read, and no more.
func (r *Reply) Ended() bool { return !r.bad && len(r.rest) == 0 }

// String returns the whole reply.
func (r *Reply) String() string { return r.message.String() }
