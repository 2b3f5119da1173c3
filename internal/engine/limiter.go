package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Limiter is a limiter as the engine sees it. Limiters with one ID share their calls. An ID begins
// with the kind of its limiter and a space, so that limiters of two kinds never share an ID.
//
// A Limiter is not copied. Only Tick is optional.
type Limiter struct {
	Engine    *Engine
	ID        string
	Name      string   // in errors
	Policy    string   // for an Observer
	DependsOn []string // the keys whose changes affect it, at least one: see Change
	Protocol  Protocol
	Leases    bool          // its script can lease permits
	Tick      time.Duration // the precision of the time in its calls; 0 for a millisecond
}

func (l *Limiter) tick() time.Duration { return cmp.Or(l.Tick, time.Millisecond) }

// Protocol translates between batches and the script of a limiter.
type Protocol interface {
	// Call returns the script that takes the permits of a batch, and its keys.
	Call(b *Batch) (*redisx.Script, []string)

	// Arguments sets the Args of a batch. The time is that of Engine.Now.
	Arguments(b *Batch, now time.Time)

	// Answer reads the reply to a batch. It sets the answers, errors and granted Permits of the
	// requests, and the other fields of Batch that the reply reports. If the script needs another
	// call, Answer sets the Args of that call and returns true. It may set Before as well. Such a
	// reply has granted nothing.
	Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error)

	// Receipt returns the Refund and the Return of a receipt for permits that the call of the batch has
	// Granted to requests. They are nil if that is not possible. They are used when the batch no longer is.
	Receipt(b *Batch) (refund, giveBack receipt.Refund)

	// Refund returns a function that refunds the permits of the Lost requests, or nil if that is
	// not possible. The function runs when the batch is no longer used, and no caller waits for it.
	Refund(b *Batch) func(context.Context)

	// Explain adds the limiter to the error of a call.
	Explain(ctx context.Context, err error) error

	// AboveLimit returns the error of a request that can never be granted.
	AboveLimit(permits, limit int64) error
}

// leases reports whether the limiter's permits may be leased.
func (l *Limiter) leases() bool { return l.Leases && l.Engine.lease > 0 }
