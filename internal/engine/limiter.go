package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Limiter is what calls are made for. Limiters of one ID share their calls, whichever value their callers hold. An ID
// begins with the kind of its limiter and a space, so that two kinds never share one, whatever their names are.
//
// It is made once and not copied; all of it but Subjects and Most is needed.
type Limiter struct {
	Engine   *Engine
	ID       string
	Name     string   // as messages tell it
	Policy   string   // as an Observer is told it
	Subjects []string // what its answers depend on, see Changing; nil for its ID
	Protocol Protocol
	Most     int  // how many requests of Try go in one call; 0 for MostRequests
	Leases   bool // its script knows how to lease

	met atomic.Pointer[entry] // the last entry that a call of this value met; it may be gone
}

// Protocol is what calls of a limiter mean.
type Protocol interface {
	// Call is the script that takes the permits of a batch, and its keys.
	Call(b *Batch) (*Script, []string)

	// Arguments makes the Args of a batch. The time is as Engine.Now tells it.
	Arguments(b *Batch, now time.Time)

	// Answer reads the reply to a batch: it fills in the answers and errors of its requests, and what else the reply tells
	// of Batch. Or it sets other Args, with which the script goes on where it stopped.
	Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error)

	// GiveBack is what takes back what a batch was granted for its Lost requests, or nil where that is not possible. It runs
	// once their batch is no longer used, and nobody waits for it.
	GiveBack(b *Batch) func(context.Context)

	// Explain makes the error of a Redis call say which limiter it is about.
	Explain(ctx context.Context, err error) error

	// AboveLimit is the error of a request that can never be granted.
	AboveLimit(permits, limit int64) error
}

// Answer is what a request came to.
type Answer struct {
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Outlook is what a reply tells of the time after it. It does not change.
type Outlook interface {
	// Limit is the most permits that can ever be granted at once.
	Limit() int64

	// Free is how many permits every part had free, below 0 where more were taken than there are.
	Free() int64

	// Denied is the answer to a request for permits that are not free, at the moment of the reply. It says false where the
	// reply does not tell.
	Denied(permits int64) (Answer, bool)

	// Parts is what each part says of such a request, for an Ask with Each; nil where there are none.
	Parts(permits int64) []Answer

	// Earliest is how long after the reply the last of so many permits can be granted at the earliest, where they are asked
	// for one after another: Never, or a time that may be too early, but not too late.
	Earliest(wanted Total) time.Duration

	// Worse says whether somebody who could have been served by another outlook may wait in vain by this one, since the
	// limiter itself has changed.
	Worse(than Outlook) bool
}

// Never is longer than anything lasts.
const Never = time.Duration(1<<63 - 1)
