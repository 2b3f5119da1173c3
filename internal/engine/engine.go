// Package engine carries the calls of limiters to Redis. It lets callers that ask at the same moment share one call, sends
// calls of many names in pipelines, keeps those who wait in a queue, gives back what was granted to callers that have gone,
// and answers denials from memory.
//
// It knows requests, batches and replies. What they mean, a [Protocol] knows: the keys, the script, how a batch becomes
// arguments, and how a reply becomes answers.
package engine

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Engine carries the calls for one Redis. It keeps nothing of a name once no call for it is under way, but denials that
// are remembered and permits that are leased, and no goroutine for longer than a tenth of a second after its last call.
type Engine struct {
	redis    rueidis.Client
	now      func() time.Time // nil: the server's clock
	ownClock bool             // now is the program's, and may panic
	cluster  bool
	lease    time.Duration // how long permits are leased for, 0 for not at all

	registry registry
	waiting  index    // of the limiters that somebody waits for
	holders  index    // of those with leases
	returns  sync.Map // the *arrival of each give-back that is under way
	pipeline redisx.Pipeline
	yields   yields
	workers  workers
	denials  *denials  // nil where denials are not remembered
	observer *observer // nil where nobody is told of anything

	slow    atomic.Bool  // the last call took long
	calling atomic.Int64 // names that callers who ask once have calls under way for

	// What a call needs is kept for the calls after it. The pools are an Engine's own: what they hold must not come up in
	// another synctest bubble.
	requests, batches sync.Pool
}

// Settings is what an Engine is made with.
type Settings struct {
	Redis      rueidis.Client
	Now        func() time.Time // the clock; nil for the host's
	ServerTime bool             // the server's clock instead
	Denials    time.Duration    // answer denials from memory for so long at most; 0: not at all
	Lease      time.Duration    // lease permits for so long, where a Limiter can; 0: not at all
	Observer   *Observer        // nil: nobody
}

// New makes an Engine. It asks nothing of Redis.
func New(s Settings) *Engine {
	g := &Engine{redis: s.Redis, now: s.Now, ownClock: s.Now != nil && !s.ServerTime, lease: s.Lease, observer: newObserver(s.Observer)}
	switch {
	case s.ServerTime:
		g.now = nil
	case s.Now == nil:
		g.now = time.Now
	}
	g.workers = make(workers)
	g.pipeline.Redis, g.pipeline.Gather = s.Redis, g.yields.gather
	g.requests.New = func() any { return new(Request) }
	g.batches.New = func() any { return new(Batch) }
	if s.Denials > 0 {
		g.denials = newDenials(s.Denials, g.now, g.ownClock)
	}
	g.cluster = s.Redis != nil && s.Redis.Mode() == rueidis.ClientModeCluster
	return g
}

// Redis is the client that the calls go through.
func (g *Engine) Redis() rueidis.Client { return g.redis }

// Cluster says whether that is a Redis Cluster.
func (g *Engine) Cluster() bool { return g.cluster }

// RemembersDenials says whether denials may be answered from memory.
func (g *Engine) RemembersDenials() bool { return g.denials != nil }

// Leases says whether permits may be leased.
func (g *Engine) Leases() bool { return g.lease > 0 }

// Observed says whether anybody is told of what it does.
func (g *Engine) Observed() bool { return g.observer != nil }

// Now is the time that calls are dated by; the zero Time where the server's clock is to tell.
func (g *Engine) Now() time.Time {
	if g.now == nil {
		return time.Time{}
	}
	return g.now()
}

// AppendMillis appends a time of Now as a script takes it: Unix milliseconds, or nothing for the server's clock.
func (g *Engine) AppendMillis(text []byte, now time.Time) []byte {
	if g.now == nil {
		return text
	}
	return strconv.AppendInt(text, now.UnixMilli(), 10)
}

// AppendMicros is AppendMillis in microseconds.
func (g *Engine) AppendMicros(text []byte, now time.Time) []byte {
	if g.now == nil {
		return text
	}
	return strconv.AppendInt(text, now.UnixMicro(), 10)
}

// ServerTime says whether the server's clock is to tell the time.
func (g *Engine) ServerTime() bool { return g.now == nil }

// Idle says whether no call is under way.
func (g *Engine) Idle() bool { return g.registry.live.Load() == 0 && g.calling.Load() == 0 }
