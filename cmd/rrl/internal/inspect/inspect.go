// Package inspect finds limiters in Redis and reads their state. It sends only small reading commands, many
// per round trip. It counts permits as the libraries do, and reports problems.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Reader reads limiters.
type Reader struct {
	Redis *connect.Redis
	Now   func() time.Time // the clock by which grants expire
}

// ServerTime returns the time of the server's clock.
func (r *Reader) ServerTime(ctx context.Context) (time.Time, error) {
	reply, _ := r.Redis.Any(ctx, "TIME")
	parts, err := reply.AsIntSlice()
	if err != nil {
		return time.Time{}, r.Redis.Explain(err)
	}
	if len(parts) != 2 {
		return time.Time{}, fmt.Errorf("%s replies to TIME with %d numbers", r.Redis.Where, len(parts))
	}
	return time.Unix(parts[0], parts[1]*1000), nil
}

const (
	page     = 256 // members, entries or keys per command
	pipeline = 256 // commands per round trip
)

func (r *Reader) ask(ctx context.Context, commands rueidis.Commands) ([]rueidis.RedisResult, error) {
	results := make([]rueidis.RedisResult, 0, len(commands))
	for part := range slices.Chunk(commands, pipeline) {
		results = append(results, r.Redis.DoMulti(ctx, part...)...)
	}
	for _, result := range results {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) && !wrongType(err) && !unknownCommand(err) {
			return nil, r.Redis.Explain(err)
		}
	}
	return results, nil
}

// wrongType reports whether an error is about the type of a key, which is a problem of the limiter and
// not of Redis.
func wrongType(err error) bool { return saidBy(err, "WRONGTYPE") }

// unknownCommand reports whether a server lacks a command, such as MEMORY USAGE.
func unknownCommand(err error) bool { return saidBy(err, "ERR unknown command") }

func saidBy(err error, prefix string) bool {
	var said *rueidis.RedisError
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), prefix)
}

// Special values of a TTL, as PTTL replies them.
const (
	Forever = -1 // the key never expires
	NoKey   = -2
)

// number reads a number, 0 if the reply is none.
func number(result rueidis.RedisResult) int64 {
	n, _ := result.AsInt64()
	return n
}

// Grant is one member of a permits set.
type Grant struct {
	At      int64 // Unix milliseconds
	Permits int64 // -1 if the member is too short for a grant
	Known   bool  // the member has the format of a grant
	Member  string
}

// grants reads the members of a set between two ranks, a page at a time, the oldest first. It returns
// false if it stops after the given number of pages. It also stops if see does.
func (r *Reader) grants(ctx context.Context, key string, first, last int64, pages int, see func(Grant)) (all bool,
	err error) {
	for ; first <= last; first += page {
		if pages == 0 {
			return false, nil
		}
		pages--
		stop := min(last, first+page-1)
		result := r.Redis.Do(ctx, r.Redis.B().Zrange().Key(key).Min(strconv.FormatInt(first,
			10)).Max(strconv.FormatInt(stop, 10)).Withscores().Build())
		found, err := decodeGrants(result)
		if err != nil {
			return false, r.Redis.Explain(err)
		}
		for _, g := range found {
			see(g)
		}
		if int64(len(found)) < stop-first+1 {
			return true, nil // some were removed meanwhile
		}
	}
	return true, nil
}

func decodeGrants(result rueidis.RedisResult) ([]Grant, error) {
	scores, err := result.AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	found := make([]Grant, len(scores))
	for i, z := range scores {
		const most = 1 << 53 // the score may be infinite
		found[i] = Grant{At: int64(min(max(z.Score, -most), most)), Member: z.Member}
		found[i].Permits, found[i].Known = inside.PermitsOf(z.Member)
	}
	return found, nil
}
