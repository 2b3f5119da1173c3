package outages

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	joinName    = "{shop}:joined"
	joinCallers = 4

	// plenty is the permits of each part of the Join.
	plenty = 1_000_000
)

// join is a Join of a Redisson limiter and policies of package limit. None of its permits returns
// during a test, so that its parts show all permits ever taken. No fault makes one part take permits
// without the others.
type join struct {
	limiter *limit.Limiter
	book    *ledger.Ledger
	unknown *ledger.Ledger // calls that failed, as grants: taken or not, and released or not
}

// left names the calls of unknown whose contexts ended.
const left = "left"

func newJoin(client *rratelimiter.Client) *join {
	rate := rratelimiter.Rate{Permits: plenty, Interval: time.Hour}
	return &join{
		limiter: limit.Join(
			client.Limiter(joinName+":quota", rratelimiter.InitialRate(rate)),
			limit.New(client, joinName+":fixed", limit.FixedWindow{Permits: plenty, Interval: time.Hour}),
			limit.New(client, joinName, limit.SlidingLog{Permits: plenty, Interval: time.Hour},
				limit.TokenBucket{Capacity: plenty, Refill: 1, Interval: time.Hour}),
			limit.New(client, joinName, limit.SlidingWindow{Permits: plenty, Interval: time.Hour}),
		),
		book:    ledger.New(func(err error) string { return Kind(err, joinName) }),
		unknown: ledger.New(nil),
	}
}

// joinCaller takes permits of the Join again and again, by the call that i selects. It leaves every
// fourth call early, mostly while that is under way.
func (l *Load) joinCaller(i int) {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	for !l.stopped() {
		stays := 200*time.Millisecond + time.Duration(random.Int64N(int64(600*time.Millisecond)))
		if random.IntN(4) == 0 {
			stays = time.Duration(random.Int64N(int64(3 * time.Millisecond)))
		}
		start, permits := time.Now(), 1+random.Int64N(3)
		ctx, cancel := context.WithCancel(context.Background())
		leave := time.AfterFunc(stays, cancel)
		_, err := l.join.book.Time("join", permits, func() (bool, error) {
			return everycall.Acquire(ctx, l.join.limiter, i, permits, within)
		})
		l.latest.Add(time.Since(start.Add(stays)))
		leave.Stop()
		if err != nil {
			failed := ledger.Grant{Start: start, End: time.Now(), Permits: permits}
			if ctx.Err() != nil {
				failed.Who = left
			}
			l.join.unknown.Granted(failed)
		}
		cancel()
		time.Sleep(pause + time.Duration(random.Int64N(int64(10*time.Millisecond))))
	}
}

// awaitJoin waits until the permits of callers that have left are released, and reports whether the
// parts agree.
func (l *Load) awaitJoin() bool {
	var kept int64 // permits of callers that Redis has not lost
	for _, g := range l.join.book.Grants() {
		if !l.mayBeLost(g) && g.Start.After(l.emptied) {
			kept += g.Permits
		}
	}
	most := l.join.book.Permits()
	if !l.allReplies {
		most += l.join.unknown.Permits()
	}
	// Permits of callers that left, those of them that Redis may have lost, and those from before a loss of all data.
	var released, lost, early int64
	for _, g := range l.join.unknown.Grants() {
		if g.Who == left {
			released += g.Permits
			if g.Start.Before(l.emptied) {
				early += g.Permits
			}
			if l.losses != nil && !g.End.Before(l.losses[0].from) && !g.Start.After(l.losses[len(l.losses)-1].to) {
				lost += g.Permits
			}
		}
	}
	agree := func(taken []int64) bool { // of each part
		quota, window, log, bucket, cells := taken[0], taken[1], taken[2], taken[3], taken[4]
		// A release to a bucket subtracts what was refilled since the call, far less than a permit here: it
		// may lack one more. quota has a release of its own, and a fault may end one of the two. A release
		// of permits that Redis has lost finds no entry of the log, and returns others of the cells. That of a slow
		// call returns nothing to a window that is not much older. One that is slower than its call may reach a window
		// that began after a loss of all data.
		return (bucket == cells || bucket == cells+1) && cells <= log && log <= cells+lost &&
			cells-early <= window && window <= cells+released &&
			kept <= min(quota, log) && max(quota, log) <= most && quota <= log+released
	}
	for ended := time.Now().Add(settleTimeout); ; time.Sleep(20 * time.Millisecond) {
		parts, err := l.join.limiter.Peek(context.Background())
		require.NoError(l.t, err)
		var taken []int64
		for _, part := range parts {
			taken = append(taken, plenty-part.Remaining)
		}
		if agree(taken) || time.Now().After(ended) {
			l.t.Logf("the Join: %v taken; at least %d and at most %d; errors %v", taken, kept, most, l.join.book.Errors())
			return agree(taken)
		}
	}
}
