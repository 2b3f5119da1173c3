package engine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Limiter is what calls are made for. Limiters of one ID share their calls, whichever value their callers hold. An ID
// begins with the kind of its limiter and a space, so that two kinds never share one, whatever their names are.
//
// It is made once and not copied; all of it but Key, Subjects and Most is needed.
type Limiter struct {
	Engine   *Engine
	ID       string
	Key      any      // ID, for the registry; made once, since a string as an interface is an allocation
	Name     string   // as messages tell it
	Policy   string   // as an Observer is told it
	Subjects []string // what its answers depend on, see Changing; nil for its ID
	Protocol Protocol
	Most     int  // how many requests of Try go in one call; 0 for MostRequests
	Leases   bool // its script knows how to lease
}

// Protocol is what calls of a limiter mean.
type Protocol interface {
	// Call is the script that takes the permits of a batch, and its keys.
	Call(b *Batch) (*redisx.Script, []string)

	// Arguments makes the Args of a batch. The time is as Engine.Now tells it.
	Arguments(b *Batch, now time.Time)

	// Answer reads the reply to a batch: it fills in the answers and errors of its requests, and what else the reply tells
	// of Batch. Or it sets other Args, with which the script goes on where it stopped.
	Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error)

	// Refund is what takes back what a batch was granted for its Lost requests, or nil where that is not possible. It runs
	// once their batch is no longer used, and nobody waits for it.
	Refund(b *Batch) func(context.Context)

	// Explain makes the error of a Redis call say which limiter it is about.
	Explain(ctx context.Context, err error) error

	// AboveLimit is the error of a request that can never be granted.
	AboveLimit(permits, limit int64) error
}

// key returns the key of the registry.
func (l *Limiter) key() any {
	if l.Key != nil {
		return l.Key
	}
	return l.ID
}

// subjects returns what the answers of a limiter depend on.
func (l *Limiter) subjects() []string {
	if l.Subjects == nil {
		return []string{l.ID}
	}
	return l.Subjects
}

// leases reports whether the limiter's permits may be leased.
func (l *Limiter) leases() bool { return l.Leases && l.Engine.Leases() }
