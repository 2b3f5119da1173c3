package rights_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// stage is a server with limiters of two users: one with all rights, and one without a right. Both
// have the same client id.
type stage struct {
	server *servers.Server
	redis  rueidis.Client // all rights
	id     uuid.UUID
	now    time.Time
	all    *rratelimiter.Client
}

func (s *stage) clock() time.Time { return s.now }

func (s *stage) do(t *testing.T, args ...string) rueidis.RedisMessage {
	t.Helper()
	message, err := s.redis.Do(t.Context(), s.redis.B().Arbitrary(args...).Build()).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err, args)
	}
	return message
}

// without returns a Client whose user lacks the right to a command.
func (s *stage) without(t *testing.T, command string) *rratelimiter.Client {
	t.Helper()
	s.do(t, "ACL", "SETUSER", "tester", "reset", "on", ">secret", "~*", "+@all", "-"+strings.ToLower(command))
	redis := s.connect(t, "tester")
	if command == "TIME" {
		return rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithServerTime())
	}
	return rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock))
}

// The states of the limiter before a call: 3 and 2 permits are taken, or 4 more that have expired.
// Of the 5, Redisson may have released 4, or 2 more may have been lost.
var states = []string{"taken", "left", "all left", "no value", "no value, left", released, "released, left", lost,
	"lost, left"}

const (
	released = "released"
	lost     = "lost"
	drifted  = 4 // permits released
	missing  = 2 // permits lost
)

func (s *stage) prepare(t *testing.T, r rratelimiter.Rate, name string) (taken int64) {
	t.Helper()
	s.do(t, "FLUSHALL")
	// Ahead of the server's: calls that wait are dated by that clock if it is less than 100 ms ahead.
	s.now = time.UnixMilli(time.Now().UnixMilli()).Add(time.Second)
	for _, limiter := range []string{"limiter", "other"} {
		l := s.all.Limiter(limiter)
		require.NoError(t, l.SetRate(t.Context(), r))
		take := func(permits int64) {
			t.Helper()
			require.True(t, redistest.Result(t, l.TryAcquire, permits))
			s.now = s.now.Add(time.Millisecond)
		}
		if limiter == "other" { // which a Rename or a Copy replaces
			take(rate)
			break
		}
		if strings.Contains(name, "left") {
			take(4)
			if name != "all left" {
				s.now = s.now.Add(interval / 2)
			}
		}
		if name != "all left" {
			take(3)
			take(2)
		}
		if strings.Contains(name, "left") {
			s.now = s.now.Add(interval / 2)
			if name == "all left" {
				s.now = s.now.Add(interval)
			}
		}
		if strings.Contains(name, "no value") {
			k := state.KeysOf("limiter", s.id.String())
			s.do(t, "DEL", k[state.Value], k[state.ClientValue])
		}
		value, permits := state.KeysOf("limiter", s.id.String())[state.Value], int64(0)
		if r.Type == rratelimiter.PerClient {
			value = state.KeysOf("limiter", s.id.String())[state.ClientValue]
		}
		switch {
		case strings.HasPrefix(name, released):
			permits = drifted
		case strings.HasPrefix(name, lost):
			permits = -missing
		}
		if permits != 0 {
			s.do(t, "INCRBY", value, strconv.FormatInt(permits, 10))
		}
	}
	if name == "all left" {
		return 0
	}
	return 5
}

// settled waits until a value has expired that a rejected script left with a TTL of a millisecond.
func (s *stage) settled(t *testing.T) {
	t.Helper()
	for _, limiter := range []string{"limiter", "other"} {
		k := state.KeysOf(limiter, s.id.String())
		for _, key := range []string{k[state.Value], k[state.ClientValue]} {
			for {
				reply := s.do(t, "PTTL", key)
				left, err := reply.AsInt64()
				require.NoError(t, err)
				if left < 0 || left > 10 {
					break
				}
			}
		}
	}
}

func (s *stage) free(t *testing.T, name string) (free, permits int64) {
	t.Helper()
	l := s.all.Limiter(name)
	config, err := l.Config(t.Context())
	if errors.Is(err, rratelimiter.ErrNotInitialized) {
		return -1, 0
	}
	require.NoError(t, err)
	free = redistest.Available(t, l)
	return free, config.Permits
}

func newStage(t *testing.T) *stage {
	server := servers.Single(t)
	redis := server.Client(t)
	s := &stage{server: server, redis: redis, id: uuid.New()}
	s.all = rratelimiter.New(redis, rratelimiter.WithClientID(s.id), rratelimiter.WithClock(s.clock))
	return s
}

// allowed returns a Client whose user has the right to these commands, and to those of a connection.
func (s *stage) allowed(t *testing.T, commands []string, opts ...rratelimiter.Option) *rratelimiter.Client {
	t.Helper()
	return s.allowedOn(t, []string{"~*"}, commands, opts...)
}

// allowedOn is allowed for the keys of some patterns.
func (s *stage) allowedOn(t *testing.T, keys, commands []string, opts ...rratelimiter.Option) *rratelimiter.Client {
	t.Helper()
	rights := append([]string{"ACL", "SETUSER", "weak", "reset", "on", ">secret", "+@connection"}, keys...)
	for _, command := range commands {
		rights = append(rights, "+"+strings.ToLower(command))
	}
	s.do(t, rights...)
	return rratelimiter.New(s.connect(t, "weak"), opts...)
}

// connect connects as a user.
func (s *stage) connect(t *testing.T, user string) rueidis.Client {
	t.Helper()
	return servers.Connect(t, rueidis.ClientOption{InitAddress: []string{s.server.Addr()}, Username: user,
		Password: "secret", ForceSingleClient: true, DisableCache: true})
}
