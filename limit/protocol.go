package limit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// wire is the keys and the policies of one limiter. It makes the arguments of its scripts and reads
// their replies.
type wire struct {
	*plan
	name      string // that the limiter was opened with
	members   []member
	keys      []string // of the members, in their order
	dependsOn []string // as in engine.Limiter
}

// protocol is the part of engine.Protocol that all calls share. The methods are not those of wire,
// which a Limiter embeds: they would be a part of its API.
type protocol struct{ *wire }

// AboveLimit implements engine.Protocol.
func (p protocol) AboveLimit(permits, limit int64) error { return p.aboveLimit(permits, limit) }

// Explain implements engine.Protocol.
func (p protocol) Explain(ctx context.Context, err error) error { return p.explain(ctx, err) }

// arguments appends the arguments of members at a time.
func arguments(args []string, members []member, now time.Time) []string {
	for _, m := range members {
		args = m.policy.arguments(args, now)
	}
	return args
}

// aboveLimit returns the error of a request for more permits than can ever be granted.
func (w *wire) aboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, which can never grant more than %d", rratelimiter.ErrPermitsExceedRate,
		permits, w.name, limit)
}

// explain adds the limiter to the error of a call. If a key has another type, it returns a
// StateError for that key.
func (w *wire) explain(ctx context.Context, err error) error {
	var redisErr *rueidis.RedisError
	if errors.As(err, &redisErr) && strings.Contains(redisErr.Error(), "WRONGTYPE") {
		redis := w.client.Engine.Redis()
		for _, m := range w.members {
			for i, want := range m.policy.keeps() {
				// Not a read of rueidis' own builder, which would be sent again for as long as an
				// outage lasts.
				got, err := redis.Do(ctx, redis.B().Arbitrary("TYPE").Keys(m.keys[i]).Build()).ToString()
				if err == nil && got != want && got != "none" {
					return &rratelimiter.StateError{Key: m.keys[i], Value: got}
				}
			}
		}
	}
	return fmt.Errorf("limit: limiter %q: %w", w.name, err)
}
