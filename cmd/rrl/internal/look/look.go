// Package look finds limiters in Redis and reads what they hold, by commands that only read: each of them small, and many in one
// round trip. It sees a limiter as the libraries count it, and tells what is wrong with it.
package look

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
)

// Reader reads limiters.
type Reader struct {
	Redis *connect.Redis
	Now   func() time.Time // the clock by which grants leave the window
}

const (
	page     = 256 // members, entries or keys that one command gets
	pipeline = 256 // commands that go together
)

// ask sends commands, a pipeline of them at a time.
func (r *Reader) ask(ctx context.Context, commands rueidis.Commands) ([]rueidis.RedisResult, error) {
	results := make([]rueidis.RedisResult, 0, len(commands))
	for len(commands) > 0 {
		n := min(pipeline, len(commands))
		results = append(results, r.Redis.DoMulti(ctx, commands[:n]...)...)
		commands = commands[n:]
	}
	for _, result := range results {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) && !wrongType(err) && !unknownCommand(err) {
			return nil, r.Redis.Explain(err)
		}
	}
	return results, nil
}

// wrongType says that a key is of another type than the command is for, which says something of the limiter and not of Redis.
func wrongType(err error) bool { return saidBy(err, "WRONGTYPE") }

// unknownCommand is for MEMORY USAGE, which not every server has.
func unknownCommand(err error) bool { return saidBy(err, "ERR unknown command") }

func saidBy(err error, prefix string) bool {
	var said *rueidis.RedisError
	return errors.As(err, &said) && len(said.Error()) >= len(prefix) && said.Error()[:len(prefix)] == prefix
}

// What a TTL is where there is no time left to tell, as PTTL replies it.
const (
	Forever = -1 // the key never expires
	NoKey   = -2
)

func number(result rueidis.RedisResult) int64 {
	n, err := result.AsInt64()
	if err != nil {
		return 0
	}
	return n
}

// text reads a string, which nil stands for the lack of.
func text(result rueidis.RedisResult) (value *string, other bool) {
	s, err := result.ToString()
	switch {
	case err == nil:
		return &s, false
	case wrongType(err):
		return nil, true
	}
	return nil, false
}
