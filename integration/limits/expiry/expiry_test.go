// Package expiry_test calls limiters at every millisecond around their expiry, on a real server. State
// must not expire before the configuration, or the rate is granted once more.
package expiry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const (
	atOnce   = 8
	permits  = 10
	interval = time.Hour // no permit returns while a limiter exists
)

// EXPIRIES limiters, by default 400, half of them OVERALL, and half with a keep-alive.
func TestExpire_CallsAroundTheEnd_GrantNothingTwice(t *testing.T) {
	limiters := int(env.Number("EXPIRIES", 400))
	redis := servers.Single(t).Client(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	clients := [2]*rratelimiter.Client{rratelimiter.New(redis), rratelimiter.New(redis)}
	slots := make(chan int, atOnce)
	var running sync.WaitGroup
	lives := make([]*life, limiters)
	for i := range lives {
		slots <- i
		running.Go(func() {
			l := &life{redis: redis, random: rand.New(rand.NewPCG(seed, uint64(i))),
				rate: rratelimiter.Rate{Type: rratelimiter.RateType(i % 2), Permits: permits, Interval: interval}}
			for j, c := range clients {
				l.users[j] = c.Limiter(fmt.Sprint("life ", i))
			}
			assert.NoError(t, l.live(t.Context(), i%4 >= 2))
			lives[i] = l
			<-slots
		})
	}
	running.Wait()
	calls := 0
	for _, l := range lives {
		calls += len(l.log)
		if l.rate.Type == rratelimiter.Overall {
			l.granted = [2]int64{l.granted[0] + l.granted[1]}
			l.released = [2]int64{l.released[0] + l.released[1]}
		}
		for user := range l.users {
			require.LessOrEqual(t, l.granted[user], permits+l.released[user], "%s, %v: %v", l.users[0].Name(), l.rate, l.log)
		}
	}
	require.Greater(t, calls, 5*limiters, "too few calls around the end")
}

// life is a limiter from its first call to its expiry.
type life struct {
	redis             rueidis.Client
	random            *rand.Rand
	rate              rratelimiter.Rate
	ends              time.Time // approximately
	users             [2]*rratelimiter.Limiter
	granted, released [2]int64 // of each user; released: at most
	log               []string
}

// live creates a limiter with a TTL of 5 to 50 ms, and calls it until it has expired.
func (l *life) live(ctx context.Context, keptAlive bool) error {
	span := time.Duration(5+l.random.IntN(46)) * time.Millisecond
	name, ms := l.users[0].Name(), span.Milliseconds()
	if keptAlive {
		l.rate.KeepAlive = span
	}
	// Neither library accepts a keep-alive below the interval.
	for _, reply := range l.redis.DoMulti(ctx,
		l.redis.B().Hset().Key(name).FieldValue().FieldValue("rate", fmt.Sprint(permits)).
			FieldValue("interval", fmt.Sprint(interval.Milliseconds())).FieldValue("type", fmt.Sprint(int(l.rate.Type))).
			FieldValue("keepAliveTime", fmt.Sprint(l.rate.KeepAlive.Milliseconds())).Build(),
		l.redis.B().Pexpire().Key(name).Milliseconds(ms).Build()) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	l.ends = time.Now().Add(span)
	for range 60 {
		// A few calls at any time, then many around the end.
		if left := time.Until(l.ends); left > 2*time.Millisecond && len(l.log)%12 >= 3 {
			time.Sleep(left - time.Millisecond - time.Duration(l.random.IntN(1000))*time.Microsecond)
		}
		err := l.call(ctx, l.random.IntN(len(l.users)))
		if errors.Is(err, rratelimiter.ErrNotInitialized) {
			return nil
		}
		if err != nil && !errors.Is(err, rratelimiter.ErrUnsupported) { // conditions of Expire, before 7.0
			return err
		}
	}
	return l.redis.Do(ctx, l.redis.B().Del().Key(name).Build()).Error()
}

// call makes a random call of a user.
func (l *life) call(ctx context.Context, user int) (err error) {
	u, n, choice := l.users[user], 1+l.random.Int64N(4), l.random.IntN(100)
	if l.rate.KeepAlive > 0 {
		l.ends = time.Now().Add(l.rate.KeepAlive)
	}
	var did any
	switch {
	case choice < 65:
		ok := false
		if ok, err = everycall.Acquire(ctx, u, 2+choice%2, n, 0); ok { // Take or TryAcquire
			l.granted[user] += n
		}
		did = fmt.Sprintf("takes %d: %v", n, ok)
	case choice < 72:
		l.released[user]++
		did, err = "releases 1", u.Release(ctx, 1)
	case choice < 80 && l.rate.KeepAlive == 0: // which a rate without it would end
		did = "updates the rate"
		_, err = u.UpdateRate(ctx, l.rate, rratelimiter.KeepState())
	case choice < 88:
		did = "looks"
		_, err = u.AvailablePermits(ctx)
	case choice < 92:
		span := time.Duration(5+l.random.IntN(20)) * time.Millisecond
		l.ends = time.Now().Add(span)
		var opts []rratelimiter.ExpireOption
		if condition := l.random.IntN(8); condition <= int(rratelimiter.IfLess) {
			opts = append(opts, rratelimiter.ExpireOption(condition))
		}
		did = fmt.Sprintf("lets it expire in %v, %v", span, opts)
		_, err = u.Expire(ctx, span, opts...)
	case choice == 92:
		did = "clears the expiry"
		_, err = u.ClearExpire(ctx)
	}
	l.log = append(l.log, fmt.Sprint(user, " ", did))
	return err
}
