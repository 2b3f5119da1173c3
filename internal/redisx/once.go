package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// OnceFor is how long a server knows that a call of Once has run.
const OnceFor = 5 * time.Minute

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
if not redis.call('SET', ran, '', 'NX', 'PX', '300000') then
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

// ForOnce returns the script and the keys for a call, which differ for a context of Once.
func (s *Script) ForOnce(ctx context.Context, keys []string) (script *Script, all []string) {
	id, ok := ctx.Value(onceKey{}).(string)
	if !ok {
		return s, keys
	}
	s.onceInit.Do(func() { s.once = NewScript(onceHead + s.text + onceTail) })
	sum := sha1.Sum([]byte(id + s.sha1 + keys[0]))
	ran := "{" + Tag(keys[0]) + "}:settled:" + hex.EncodeToString(sum[:8])
	return s.once, append(keys[:len(keys):len(keys)], ran)
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
