// Package engine sends the calls of limiters to Redis. Callers of one limiter that arrive at the
// same time share a call. Calls for many limiters share pipelines. Callers that wait are queued.
// Permits that arrive for a caller that has left are released. Denials can be answered from memory,
// and grants from leases.
//
// The engine handles requests, batches and replies. A [Protocol] gives them their meaning: the
// keys, the script, how a batch becomes arguments, and how a reply becomes answers.
//
// # Callers that leave
//
// A caller returns as soon as its context ends. A command that was sent by then is completed: if its
// context ended, rueidis would close the connection, which others use too. Whether more commands
// follow (the rest of a script, a redirection of a cluster, a repetition while a slot moves) depends
// on who is left:
//
//	call of           context          more commands are sent               moving slot
//	a batch           Batch.context    while a caller is left or, if it     1/4 s
//	                                   brings a lease, for its length
//	a single          Batch.context    while its caller is left             1/4 s
//	one caller        [Detach]         until the context of the caller ends 1/4 s
//	no caller: the    [Unattended]     for a minute                         a minute
//	release of permits
//
// A goroutine that others wait for may end early, by a panic or runtime.Goexit in a callback of the
// program. Then they get [redisx.ErrNoReply]: see runOrAbort.
package engine

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Engine sends the calls for one Redis. It keeps state for a limiter while calls wait or are in
// flight, while permits are leased, and while a denial is cached. No goroutine outlives the last
// command to Redis, releases included, by more than 100 ms.
type Engine struct {
	redis    rueidis.Client
	now      func() time.Time // nil: the server's clock
	ownClock bool             // the program set now, which may panic
	lease    time.Duration    // for which permits are leased; 0: never

	registry   registry
	dependents index    // the limiters with a queue or leases
	transfers  sync.Map // the *transfer of each lease that is being fetched or released
	changing   changing
	pipelines  *redisx.Pipelines
	yields     yields
	callTime   callTime
	workers    workers
	denials    *denials  // nil without a denial cache
	observer   *observer // nil without an Observer

	slow      atomic.Bool  // the last call took long
	contended atomic.Bool  // the last call had several callers, or was not the only one for its limiter
	calling   atomic.Int64 // limiters with calls in flight, and singles; those of queues excepted

	// Each Engine has pools of its own: a channel of one synctest bubble must not be used in
	// another.
	requests, batches, singles sync.Pool
}

// Settings configures an Engine.
type Settings struct {
	Redis      rueidis.Client
	Now        func() time.Time // the clock; nil for the host's
	ServerTime bool             // the server's clock instead
	Denials    time.Duration    // the longest that a denial is answered from memory; 0: never
	Lease      time.Duration    // for which permits are leased, if the Limiter can; 0: never
	Observer   *Observer        // nil: none
}

// New returns an Engine. It sends nothing.
func New(s Settings) *Engine {
	g := &Engine{redis: s.Redis, now: s.Now, ownClock: s.Now != nil && !s.ServerTime, lease: s.Lease,
		observer: newObserver(s.Observer)}
	switch {
	case s.ServerTime:
		g.now = nil
	case s.Now == nil:
		g.now = time.Now
	}
	g.workers = make(workers)
	// A call that no other caller of its limiter joins says nothing of the pipelines.
	g.pipelines = redisx.NewPipelines(s.Redis, new(yields).collect)
	g.requests.New = func() any { return new(Request) }
	g.batches.New = func() any { return new(Batch) }
	g.singles.New = newSingle
	g.registry.busy.seed = maphash.MakeSeed()
	if s.Denials > 0 {
		g.denials = newDenials(s.Denials, g.now, g.ownClock)
	}
	return g
}

// Redis returns the client that sends the calls.
func (g *Engine) Redis() rueidis.Client { return g.redis }

// Cluster reports whether Redis is a Redis Cluster.
func (g *Engine) Cluster() bool {
	return g.redis != nil && g.redis.Mode() == rueidis.ClientModeCluster
}

// Node returns the address of the node of a key: see [redisx.Pipelines.Node].
func (g *Engine) Node(key string, moved bool) string { return g.pipelines.Node(key, moved) }

// Address returns the address of a node for reports and errors.
func (g *Engine) Address(node string) string { return g.pipelines.Address(node) }

// Now returns the time of a call, or the zero Time if the server's clock is used.
func (g *Engine) Now() time.Time {
	if g.now == nil {
		return time.Time{}
	}
	return g.now()
}

// Millis returns a time of Now as an argument of a script: Unix milliseconds, or nothing for the
// server's clock.
func (g *Engine) Millis(now time.Time) string {
	if g.now == nil {
		return ""
	}
	return strconv.FormatInt(now.UnixMilli(), 10)
}

// AppendMicros appends Millis in microseconds.
func (g *Engine) AppendMicros(to []byte, now time.Time) []byte {
	if g.now == nil {
		return to
	}
	return strconv.AppendInt(to, now.UnixMicro(), 10)
}

// ServerTime reports whether the server's clock is used.
func (g *Engine) ServerTime() bool { return g.now == nil }
