// Package engine sends the calls of limiters to Redis. The first caller of a
// limiter has a call of its own. Callers that arrive meanwhile share calls. Callers that wait are queued.
// Permits that arrive for a caller that has left are refunded. Denials can be answered from memory,
// and grants from prefetches.
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
//	                                   asks for a prefetch, for its length
//	one caller        [Detach]         until the context of the caller ends 1/4 s, of
//	                                                                        Taken.Settle
//	                                                                        until it ends
//	no caller: the    [Unattended]     for a minute                         a minute
//	refund of permits
//
// A goroutine that others wait for may end early, by a panic or runtime.Goexit in a callback of the
// program. Then they get [redisx.ErrNoReply]. A panic is not recovered. On a goroutine of the Engine it
// ends the program; a caller whose context cannot end has its lone call on its own goroutine.
package engine

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Engine sends the calls for one Redis. It keeps state for a limiter while calls wait or are in
// flight, while permits are prefetched, and while a denial is cached. No goroutine outlives the last
// command to Redis, refunds included, by more than 100 ms.
type Engine struct {
	Nodes        *redisx.Nodes
	Keeper       hold.Keeper  // of the permits that requests hold
	ServerTime   bool         // the server's clock dates calls
	BriefDenials atomic.Int32 // of package limit, since a call has last looked at the expiry of its key

	redis    rueidis.Client
	now      func() time.Time // nil with ServerTime
	ownClock bool             // the program set now, which may panic
	prefetch time.Duration    // for which permits are prefetched; 0: never

	registry  registry
	transfers transfers // of prefetches that are being fetched or refunded
	yields    yields
	callTime  callTime
	denials   *denials     // nil without a denial cache
	changes   *changes     // nil without denials and prefetches
	observer  *Observer    // nil without a hook
	queueSeed maphash.Seed // of the names of its queues: those of another Engine differ, also at the same address

	unclaimed atomic.Bool // calls have no Claim
	slow      atomic.Bool // the last call took long
	hooked    bool        // prefetches, a denial cache or an Observer are configured: else no call runs code for them

	// Each Engine has pools of its own: a channel of one synctest bubble must not be used in
	// another.
	requests, batches, lone sync.Pool
}

// Settings configures an Engine.
type Settings struct {
	Redis      rueidis.Client
	Now        func() time.Time // the clock; nil for the host's
	ServerTime bool             // the server's clock instead
	Denials    time.Duration    // the longest that a denial is answered from memory; 0: never
	Prefetch   time.Duration    // for which permits are prefetched, if the Limiter can; 0: never
	Observer   *Observer        // nil: none
}

// New returns an Engine. It sends nothing.
func New(s Settings) *Engine {
	g := &Engine{Nodes: redisx.NewNodes(s.Redis), ServerTime: s.ServerTime, redis: s.Redis, prefetch: s.Prefetch,
		queueSeed: maphash.MakeSeed()}
	switch {
	case s.ServerTime:
	case s.Now == nil:
		g.now = time.Now
	default:
		g.now, g.ownClock = s.Now, true
	}
	g.requests.New = func() any { return new(Request) }
	g.batches.New = func() any { return new(Batch) }
	g.lone.New = func() any { return &Batch{Requests: []*Request{new(Request)}, done: make(chan struct{}, 1)} }
	if s.Denials > 0 {
		g.denials = &denials{maxAge: s.Denials}
	}
	if s.Denials > 0 || s.Prefetch > 0 {
		g.changes = new(changes)
	}
	if o := s.Observer; o != nil && (o.Decision != nil || o.RedisCall != nil || o.Waiting != nil || o.Places != nil) {
		g.observer = o
	}
	if o := g.observer; o != nil && o.Places != nil {
		g.Keeper.Changed = func(name string, change int) { o.Places(PlacesInfo{Name: name, Change: change}) }
	}
	g.hooked = g.prefetch > 0 || g.denials != nil || g.observer != nil
	return g
}

// Redis returns the client that sends the calls.
func (g *Engine) Redis() rueidis.Client { return g.redis }

// Cluster reports whether Redis is a Redis Cluster.
func (g *Engine) Cluster() bool {
	return g.redis != nil && g.redis.Mode() == rueidis.ClientModeCluster
}

// Now returns the time of a call, or the zero Time if the server's clock is used.
func (g *Engine) Now() time.Time {
	if g.ServerTime {
		return time.Time{}
	}
	return g.now()
}

// Limiter is a limiter as the engine sees it. Limiters with one ID share their calls. An ID begins
// with the kind of its limiter and a space, so that limiters of two kinds never share an ID.
//
// A Limiter is not copied.
type Limiter struct {
	Engine      *Engine
	ID          string
	Name        string   // in errors
	Policy      string   // for an Observer
	DependsOn   []string // the keys whose changes affect it, at least one: see ChangeLimiters
	Protocol    Protocol
	CanPrefetch bool          // its script can prefetch permits
	Tick        time.Duration // the precision of the time in its calls
}

// Protocol translates between batches and the script of a limiter.
type Protocol interface {
	// Prepare sets the Call of a batch. The time is that of Engine.Now.
	Prepare(b *Batch, now time.Time)

	// Answer reads the reply to a batch. It sets the Decision, Granted and Err of each request, and the other
	// fields of Batch that the reply reports. If the script needs another call, Answer changes the Call, and returns
	// true. It may set Before as well. Such a reply has granted nothing.
	Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error)

	// Receipt returns the Refund of a receipt for permits that the call of the batch has Granted to requests. It is
	// nil if that is not possible. The Refund runs when the batch is no longer used.
	Receipt(b *Batch) receipt.Refund

	// Hold returns what the request at an index of the batch holds of so many permits, or would hold if the reply of
	// the call was lost. It is nil for a limiter without permits that are held.
	Hold(b *Batch, index int, permits int64) *hold.Hold

	// Explain adds the limiter to the error of a call.
	Explain(ctx context.Context, err error) error

	// AboveLimit returns the error of a request that can never be granted.
	AboveLimit(permits, limit int64) error
}

// usesPrefetch reports whether the limiter's permits may be prefetched.
func (l *Limiter) usesPrefetch() bool { return l.CanPrefetch && l.Engine.prefetch > 0 }

// A yield in a busy process lasts until all of its goroutines have run. If it brings no caller, the
// process is busy with other work, and calls stop yielding for a while.
const (
	longestYield  = 5 * time.Millisecond // a yield that lasts longer shows that the process is busy
	skippedYields = 1000                 // calls that do not yield then
)

// yields lets callers join a call that is about to be sent.
type yields struct {
	skips atomic.Int64 // calls that do not yield, since the process is busy
}

// collect yields as long as each yield brings callers, until there are enough.
func (y *yields) collect(enough int, callers func() int) {
	for before := 0; before < enough && y.yield(callers); {
		now := callers()
		if now == before {
			return
		}
		before = now
	}
}

// yield lets other goroutines run, and reports whether the process is not too busy for that. Whether others join the
// call of a queue is not counted: callers is nil.
func (y *yields) yield(callers func() int) bool {
	if y.skips.Load() > 0 {
		y.skips.Add(-1)
		return false
	}
	start := time.Now()
	runtime.Gosched()
	if time.Since(start) <= longestYield {
		return true
	}
	if callers == nil || callers() == 1 {
		y.skips.Store(skippedYields)
	}
	return false
}
