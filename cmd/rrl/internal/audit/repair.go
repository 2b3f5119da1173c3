package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// repair is a command that repairs a finding, or a count by the library. The command is made only if the
// same check still finds the problem, and if none of the keys changes between that check and the command.
// A count needs no check: it corrects what is wrong at its own time.
type repair struct {
	subject *inspect.Found // the limiter with one pair, the orphan or the policy
	keys    []string
	command command // nil for a count by the library
}

// repairs gives the finding a repair, unless a cluster has the keys in several slots.
func (f *Finding) repairs(text string, subject *inspect.Found, keys []string, command command) {
	for _, key := range keys {
		if redisx.Slot(key) != redisx.Slot(keys[0]) {
			return
		}
	}
	f.Repair, f.repair = text, &repair{subject, keys, command}
}

// Fix repairs a finding and sets its Result. It returns the error of Redis. It reads at most the given
// number of pages of grants per pair.
func (f *Finding) Fix(ctx context.Context, r *inspect.Reader, pages int) error {
	if f.repair == nil {
		return nil
	}
	done, err := f.fix(ctx, r, pages)
	switch {
	case err != nil:
		f.Result = Failed
	case done:
		f.Result = Repaired
	default:
		f.Result = Changed
	}
	return err
}

func (f *Finding) fix(ctx context.Context, r *inspect.Reader, pages int) (done bool, err error) {
	if f.repair.command == nil {
		return f.count(ctx, r, pages)
	}
	conn, release := r.Redis.Dedicate()
	defer release()
	if err := conn.Do(ctx, conn.B().Watch().Key(f.repair.keys...).Build()).Error(); err != nil {
		return false, fmt.Errorf("watch %q: %w", f.repair.keys, err)
	}
	again, err := f.again(ctx, r, pages)
	if err != nil || again == nil {
		_ = conn.Do(ctx, conn.B().Unwatch().Build()).Error() // otherwise a later transaction fails needlessly
		return false, err
	}
	replies := conn.DoMulti(ctx, conn.B().Multi().Build(), again.command(conn.B()), conn.B().Exec().Build())
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return false, err
		}
	}
	changed, err := replies[2].AsIntSlice()
	if rueidis.IsRedisNil(err) {
		return false, nil // a key has changed
	}
	return len(changed) == 1 && changed[0] > 0, err
}

// count has the library count the permits of the pair, which corrects drift.
func (f *Finding) count(ctx context.Context, r *inspect.Reader, pages int) (done bool, err error) {
	options := []rratelimiter.Option{rratelimiter.WithClock(r.Now)}
	if client := f.repair.subject.Redisson[0].Pairs[0].Client; client != "" {
		options = append(options, rratelimiter.WithClientID(uuid.MustParse(client))) // as package names parsed it
	}
	opened, _ := inside.Of[inside.Redisson](rratelimiter.New(r.Redis.Client, options...).Limiter(string(f.Limiter)))
	limiter, err := opened.Open()
	if err == nil {
		err = limiter.Recount(ctx)
	}
	if err != nil {
		return false, err
	}
	again, err := f.again(ctx, r, pages)
	return again == nil, err
}

// again repeats the check and returns the repair of the finding, nil if the problem is gone.
func (f *Finding) again(ctx context.Context, r *inspect.Reader, pages int) (*repair, error) {
	subject := f.repair.subject
	if err := r.Refresh(ctx, string(f.Limiter), subject, pages); err != nil {
		return nil, err
	}
	findings, err := Check(ctx, r, subject, pages)
	i := slices.IndexFunc(findings, func(g *Finding) bool {
		return g.Kind == f.Kind && g.Key == f.Key && g.repair != nil
	})
	if err != nil || i < 0 {
		return nil, err
	}
	return findings[i].repair, nil
}

// command builds a command.
type command func(rueidis.Builder) rueidis.Completed

func expire(key string, ms int64) command {
	return func(b rueidis.Builder) rueidis.Completed { return b.Pexpire().Key(key).Milliseconds(ms).Build() }
}

func persist(key string) command {
	return func(b rueidis.Builder) rueidis.Completed { return b.Persist().Key(key).Build() }
}

func unlink(keys ...string) command {
	return func(b rueidis.Builder) rueidis.Completed { return b.Unlink().Key(keys...).Build() }
}
