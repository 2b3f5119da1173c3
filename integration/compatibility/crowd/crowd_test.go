// Package crowd_test has Java and Go callers share one limiter.
package crowd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// aloneSeconds is how long Java's threads have a limiter for themselves at the beginning of a round.
const aloneSeconds = 2

// shared is how long both sides then take permits: SHARE, by default 10s. If one side has too little,
// another round follows, up to maxRounds in all.
var shared = env.Duration("SHARE", 10*time.Second)

const maxRounds = 3

// waitJitter is that of Go's Client. With WAIT_JITTER=0s one side starves, and the test fails.
var waitJitter = env.Duration("WAIT_JITTER", 150*time.Millisecond)

// share is a limiter that threads in Java and callers in Go share, and what they got.
type share struct {
	permits  int64
	interval time.Duration
	goes     int           // callers of Acquire in Go
	javas    int           // threads that call tryAcquire(1, timeout, unit) in Java
	within   time.Duration // contexts of the callers in Go; 0 for none
	clock    time.Duration // of Go, ahead of the others

	began            time.Time // of the round
	goBook, javaBook *ledger.Ledger
	goGot, javaGot   int64 // in all rounds
}

func (s *share) String() string {
	return fmt.Sprintf("%d per %v, %d in Go within %v and with a clock %v ahead, %d in Java", s.permits, s.interval, s.goes,
		s.within, s.clock, s.javas)
}

// has reports whether each side has at least this part of the permits: 4 is a quarter.
func (s *share) has(part int64) bool { return part*min(s.goGot, s.javaGot) >= s.goGot+s.javaGot }

// Permits return in bursts, and the first waiter to ask takes what is free. The sides take turns, so that
// each gets a quarter in 30 s. A shorter run demands a tenth.
func TestShare_GoAndJavaWait_NeitherStarves(t *testing.T) {
	server := servers.Single(t)
	jvm := oracle.Start(t, "4.7.0", oracle.Single(server.Addr()))
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	shares := []*share{
		{permits: 20, interval: time.Second, goes: 6, javas: 6},
		{permits: 20, interval: time.Second, goes: 1, javas: 20},
		{permits: 20, interval: time.Second, goes: 20, javas: 1},
		{permits: 100, interval: time.Second, goes: 30, javas: 30},
	}
	for _, clock := range []time.Duration{0, 5, -5, 30, -30} {
		clock *= time.Millisecond
		for _, within := range []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second} {
			shares = append(shares,
				&share{permits: 20, interval: time.Second, goes: 40, javas: 6, within: within, clock: clock},
				&share{permits: 1, interval: 100 * time.Millisecond, goes: 4, javas: 4, within: within, clock: clock})
		}
	}
	part := int64(10)
	if shared >= 30*time.Second {
		part = 4
	}
	var running sync.WaitGroup
	for _, s := range shares {
		limiter := rratelimiter.New(conn, rratelimiter.WithWaitJitter(waitJitter),
			rratelimiter.WithClock(func() time.Time { return time.Now().Add(s.clock) })).Limiter(s.String())
		require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: s.permits, Interval: s.interval}))
		running.Go(func() {
			for round := 0; round == 0 || round < maxRounds && !s.has(4); round++ {
				s.run(t, jvm, limiter)
			}
			assert.True(t, s.has(part), "%v: Go has %d, and Java %d", s, s.goGot, s.javaGot)
		})
	}
	running.Wait()
	for _, s := range shares {
		t.Logf("%v: Go %d, Java %d", s, s.goGot, s.javaGot)
	}
}

// run runs a round and counts the permits of both sides.
func (s *share) run(t *testing.T, jvm *oracle.Redisson, limiter *rratelimiter.Limiter) {
	s.goBook, s.javaBook, s.began = ledger.New(error.Error), ledger.New(error.Error), time.Now()
	var running sync.WaitGroup
	running.Go(func() {
		assert.NoError(t, jvm.Limiter(limiter.Name()).Crowd(t.Context(), oracle.Crowd{Threads: s.javas, Permits: 1,
			Duration: aloneSeconds*time.Second + shared, AcquireTimeout: 2 * time.Second}, s.javaBook))
	})
	for range s.goes {
		running.Go(func() { s.waitInGo(t.Context(), limiter) })
	}
	running.Wait()
	goGrants, javaGrants := s.bySecond(s.goBook), s.bySecond(s.javaBook)
	alone := javaGrants[:aloneSeconds]
	goGrants, javaGrants = goGrants[aloneSeconds:], javaGrants[aloneSeconds:]
	both := sum(goGrants) + sum(javaGrants)
	s.goGot, s.javaGot = s.goGot+sum(goGrants), s.javaGot+sum(javaGrants)
	t.Logf("%v: Java alone %d; then Go %d of %d: %d, and Java %d", s, alone, sum(goGrants), both, goGrants, javaGrants)
	rate := s.permits * int64(shared/s.interval)
	assert.Greater(t, 10*both, 4*rate, "the permits of both of %v", s)
	all := append(s.goBook.Grants(), s.javaBook.Grants()...)
	window := s.interval - max(s.clock, -s.clock) // the sides see permits return apart
	assert.LessOrEqual(t, ledger.Worst(all, window).Permits, s.permits, "a window of %v", s)
}

// waitInGo calls Acquire in a loop, once Java is no longer alone.
func (s *share) waitInGo(ctx context.Context, l *rratelimiter.Limiter) {
	begin := s.began.Add(aloneSeconds * time.Second)
	time.Sleep(time.Until(begin))
	ctx, cancel := context.WithDeadline(ctx, begin.Add(shared))
	defer cancel()
	for ctx.Err() == nil {
		one, stop := ctx, context.CancelFunc(func() {})
		if s.within > 0 {
			one, stop = context.WithTimeout(ctx, s.within)
		}
		granted, _ := s.goBook.Time("go", 1, func() (bool, error) {
			return l.Acquire(one, 1) == nil, nil // it fails by its context only
		})
		if stop(); !granted {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// bySecond returns how many permits were granted in each whole second.
func (s *share) bySecond(book *ledger.Ledger) []int64 {
	seconds := make([]int64, aloneSeconds+shared/time.Second)
	for _, g := range book.Grants() {
		if second := int(g.End.Sub(s.began) / time.Second); second < len(seconds) {
			seconds[second] += g.Permits
		}
	}
	return seconds
}

func sum(seconds []int64) (sum int64) {
	for _, n := range seconds {
		sum += n
	}
	return sum
}
