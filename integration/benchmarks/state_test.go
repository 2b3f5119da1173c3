package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// account returns how the grants in Redis differ from the answers of the callers, if the whole run
// is in one window.
func (s *server) account(b testing.TB, l load, granted int64) string {
	var recorded int64
	for _, name := range l.names {
		taken, free := s.state(b, name)
		switch {
		case taken > l.limit.permits:
			return fmt.Sprintf("%d permits of %s are in one window, its rate is %d", taken, name, l.limit.permits)
		case free >= 0 && taken+free != l.limit.permits:
			return fmt.Sprintf("%d permits of %s are taken and %d free, its rate is %d", taken, name, free, l.limit.permits)
		}
		recorded += taken
	}
	if recorded != granted {
		return fmt.Sprintf("callers were granted %d permits, Redis has %d", granted, recorded)
	}
	return ""
}

// state reads the permits that are taken, and the free ones, or -1 if none was ever taken.
func (s *server) state(b testing.TB, name string) (taken, free int64) {
	ctx := context.Background()
	free, err := s.redis.Do(ctx, s.redis.B().Get().Key("{"+name+"}:value").Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		free, err = -1, nil
	}
	require.NoError(b, err)
	const page = 50_000
	for from := int64(0); ; from += page {
		members, err := s.redis.Do(ctx, s.redis.B().Zrange().Key("{"+name+"}:permits").
			Min(strconv.FormatInt(from, 10)).Max(strconv.FormatInt(from+page-1, 10)).Build()).AsStrSlice()
		require.NoError(b, err)
		for _, m := range members {
			require.GreaterOrEqual(b, len(m), 4, "the permits are the last four bytes of a member")
			n := m[len(m)-4:]
			taken += int64(n[0]) | int64(n[1])<<8 | int64(n[2])<<16 | int64(n[3])<<24
		}
		if len(members) < page {
			return taken, free
		}
	}
}

// preparedGrant is a grant that is written to Redis in Redisson's layout.
type preparedGrant struct {
	at      time.Time
	permits uint32
}

// prepare writes the state of a limiter.
func (s *server) prepare(b testing.TB, name string, free int64, grants []preparedGrant) {
	s.do(b, "SET", "{"+name+"}:value", strconv.FormatInt(free, 10))
	const page = 500
	serial := 0
	for chunk := range slices.Chunk(grants, page) {
		add := []string{"ZADD", "{" + name + "}:permits"}
		for _, g := range chunk {
			serial++
			member := fmt.Appendf(nil, "\x10%016d", serial)
			member = append(member, byte(g.permits), byte(g.permits>>8), byte(g.permits>>16), byte(g.permits>>24))
			add = append(add, strconv.FormatInt(g.at.UnixMilli(), 10), string(member))
		}
		s.do(b, add...)
	}
}
