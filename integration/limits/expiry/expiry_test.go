// Package expiry_test calls limiters at every millisecond around their expiry. State must not
// expire before the configuration, or the rate is granted once more.
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
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	atOnce   = 8
	rate     = 10
	interval = time.Hour // no permit returns while a limiter exists
)

// redisson implements tryAcquire of Redisson in our own words. The last milliseconds differ:
// PEXPIRE deletes a key when its time begins, while the configuration exists until that time is
// over. So Redisson itself sometimes loses state, and no other client can fix that.
var redisson = rueidis.NewLuaScript(`
local call = redis.call
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if not config[3] then return -1 end
local value, permits = KEYS[2], KEYS[4]
if config[3] == '1' then value, permits = KEYS[3], KEYS[5] end
local n, granted = tonumber(ARGV[2]), 1
local free = call('GET', value)
if not free then
  call('SET', value, config[1])
  free = config[1]
end
if tonumber(free) < n then
  granted = 0
else
  call('ZADD', permits, ARGV[1], ARGV[3])
  call('DECRBY', value, ARGV[2])
end
if tonumber(config[4] or '0') > 0 then
  for _, key in ipairs({KEYS[1], value, permits}) do call('PEXPIRE', key, config[4]) end
else
  local ttl = call('PTTL', KEYS[1])
  if ttl > 5 then
    call('PEXPIRE', value, ttl)
    call('PEXPIRE', permits, ttl)
  end
end
return granted`)

// each runs a command on the five keys, as Redisson's expire and clearExpire do.
var each = rueidis.NewLuaScript(`for i = 1, 5 do redis.call(ARGV[1], KEYS[i], unpack(ARGV, 2)) end return 1`)

// user is a Client of a limiter.
type user struct {
	l                 *rratelimiter.Limiter
	granted, released int64 // released: at most
}

// life is a limiter from its first call to its expiry.
type life struct {
	redis     rueidis.Client
	name      string
	random    *rand.Rand
	perClient bool
	keepAlive time.Duration
	ends      time.Time // approximately
	users     [2]*user
	java      state.Keys
	byJava    int64
	log       []string
}

var errOver = errors.New("the limiter has ended")

// EXPIRIES limiters, by default 400. On a real server.
func TestExpire_CallsAroundTheEnd_GrantNothingTwice(t *testing.T) {
	limiters := int(env.Number("EXPIRIES", 400))
	server := servers.Single(t)
	redis := server.Client(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	clients := [2]*rratelimiter.Client{rratelimiter.New(redis), rratelimiter.New(redis)}
	slots := make(chan int, atOnce)
	var done sync.WaitGroup
	var mu sync.Mutex
	calls, over := 0, 0
	for i := range limiters {
		slots <- i
		done.Go(func() {
			defer func() { <-slots }()
			l := &life{redis: redis, name: fmt.Sprint("life ", i), random: rand.New(rand.NewPCG(seed, uint64(i))),
				perClient: i%2 == 1}
			for j, c := range clients {
				l.users[j] = &user{l: c.Limiter(l.name)}
			}
			l.java = state.KeysOf(l.name, "0198f1a2-7c3d-7e4f-8a5b-6c7d8e9fa0b1")
			if !assert.NoError(t, l.live(t.Context(), i%4 >= 2)) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			calls += len(l.log)
			if found := l.over(); found != "" {
				if over++; over <= 3 {
					t.Errorf("%s: %s\n%v", l.name, found, l.log)
				}
			}
		})
	}
	done.Wait()
	t.Logf("%d calls", calls)
	require.Zero(t, over, "limiters of %d that granted too much", limiters)
	require.Greater(t, calls, 5*limiters, "too few calls around the end")
}

// over reports by how much the granted permits exceed the rate and the released permits.
func (l *life) over() string {
	granted, released := l.byJava, int64(0)
	for _, u := range l.users {
		granted += u.granted
		released += u.released
		if l.perClient && u.granted > rate+u.released {
			return fmt.Sprintf("%d were granted to a client of a rate of %d, and %d released", u.granted, rate,
				u.released)
		}
	}
	if !l.perClient && granted > rate+released {
		return fmt.Sprintf("%d were granted of a rate of %d, and %d released", granted, rate, released)
	}
	return ""
}

// live creates a limiter with a TTL of 5 to 50 ms, and calls it until it has expired.
func (l *life) live(ctx context.Context, keptAlive bool) error {
	span := time.Duration(5+l.random.IntN(46)) * time.Millisecond
	config := []string{l.name, "rate", fmt.Sprint(rate), "interval", fmt.Sprint(interval.Milliseconds()), "type", "0",
		"keepAliveTime", "0"}
	if l.perClient {
		config[6] = "1"
	}
	if keptAlive {
		l.keepAlive = span
		config[8] = fmt.Sprint(span.Milliseconds())
	}
	// Neither library accepts a keep-alive below the interval.
	if err := l.redis.Do(ctx, l.redis.B().Arbitrary("HSET").Args(config...).Build()).Error(); err != nil {
		return err
	}
	l.ends = time.Now().Add(span)
	if err := l.redis.Do(ctx,
		l.redis.B().Pexpire().Key(l.name).Milliseconds(span.Milliseconds()).Build()).Error(); err != nil {
		return err
	}
	for range 60 {
		// A few calls at any time, then many around the end.
		if left := time.Until(l.ends); left > 2*time.Millisecond && len(l.log)%12 >= 3 {
			time.Sleep(left - time.Millisecond - time.Duration(l.random.IntN(1000))*time.Microsecond)
		}
		err := l.call(ctx)
		if errors.Is(err, rratelimiter.ErrNotInitialized) || errors.Is(err, errOver) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return l.redis.Do(ctx, l.redis.B().Del().Key(l.name).Build()).Error()
}

// note records a call. keeps reports whether the call extends the TTL.
func (l *life) note(keeps bool, format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...))
	if keeps && l.keepAlive > 0 {
		l.ends = time.Now().Add(l.keepAlive)
	}
}

func (l *life) call(ctx context.Context) error {
	who := l.random.IntN(len(l.users))
	u, n := l.users[who], 1+l.random.Int64N(4)
	switch choice := l.random.IntN(100); {
	case choice < 55:
		ok, err := everycall.Acquire(ctx, u.l, 2+choice%2, n, 0) // Take or TryAcquire
		if ok {
			u.granted += n
		}
		l.note(true, "%d took %d: %v", who, n, ok)
		return err
	case choice < 60:
		u.released += 1
		l.note(true, "%d released 1", who)
		return u.l.Release(ctx, 1)
	case choice < 68:
		r := rratelimiter.Rate{Permits: rate, Interval: interval}
		if l.perClient {
			r.Type = rratelimiter.PerClient
		}
		if l.keepAlive > 0 {
			return nil // would end the keep-alive
		}
		there, err := u.l.UpdateRate(ctx, r, rratelimiter.KeepState())
		l.note(true, "%d updated the rate: %v", who, there)
		if err == nil && !there {
			err = errOver
		}
		return err
	case choice < 74:
		_, err := u.l.AvailablePermits(ctx)
		l.note(false, "%d looked", who)
		return err
	case choice < 84:
		took, err := redisson.Exec(ctx, l.redis, l.java[:], []string{
			fmt.Sprint(time.Now().UnixMilli()), fmt.Sprint(n), fmt.Sprintf("\x10%016x%c\x00\x00\x00", l.random.Uint64(),
				n),
		}).AsInt64()
		if took == 1 {
			l.byJava += n
		}
		l.note(true, "Java took %d: %v", n, took)
		if took < 0 {
			err = errOver
		}
		return err
	case choice < 92 && l.random.IntN(3) == 0:
		span := time.Duration(5+l.random.IntN(20)) * time.Millisecond
		l.ends = time.Now().Add(span)
		var opts []rratelimiter.ExpireOption
		if condition := l.random.IntN(8); condition <= int(rratelimiter.IfLess) {
			opts = append(opts, rratelimiter.ExpireOption(condition))
		}
		_, err := u.l.Expire(ctx, span, opts...)
		l.note(false, "%d let it expire in %v, %v", who, span, opts)
		if errors.Is(err, rratelimiter.ErrUnsupported) { // conditions, before 7.0
			err = nil
		}
		return err
	case choice < 96 && l.random.IntN(3) == 0:
		span := time.Duration(5+l.random.IntN(20)) * time.Millisecond
		l.ends = time.Now().Add(span)
		l.note(false, "Java let it expire in %v", span)
		return each.Exec(ctx, l.redis, l.java[:], []string{"PEXPIRE", fmt.Sprint(span.Milliseconds())}).Error()
	case choice == 96:
		_, err := u.l.ClearExpire(ctx)
		l.note(false, "%d cleared the expiry", who)
		return err
	case choice == 97:
		l.note(false, "Java cleared the expiry")
		return each.Exec(ctx, l.redis, l.java[:], []string{"PERSIST"}).Error()
	}
	return nil
}
