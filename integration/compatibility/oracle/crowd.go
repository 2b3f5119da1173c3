package oracle

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// Crowd is many Java threads that take permits of one limiter in a loop, as fast as it gives them.
type Crowd struct {
	Threads  int
	Duration time.Duration
	Permits  int64 // of each call
	// AcquireTimeout is how long a call waits for its permits. With 0 a thread calls
	// tryAcquire(permits), with a tiny pause after a denial; else tryAcquire(permits, timeout,
	// unit), whose timeout is cut where the Duration ends earlier.
	AcquireTimeout time.Duration
}

// CrowdResult is what the calls of a Crowd came to.
type CrowdResult struct {
	Grants  []Grant
	Denials int64
	// Errors counts the calls that failed, by exception and message, without what Redisson appends
	// on the single call. An error ends no thread.
	Errors map[string]int64
}

// Book books the calls in a ledger, as those of Java. Errors have a message alone.
func (r CrowdResult) Book(book *ledger.Ledger) {
	for _, g := range r.Grants {
		book.Granted(ledger.Grant{Start: g.Start, End: g.End, Permits: g.Permits, Who: "java"})
	}
	book.Denied(r.Denials)
	for message, n := range r.Errors {
		book.Failed(&Error{Message: message}, n)
	}
}

// Grant is one call of a Crowd that got its permits. Start is read right before the call and End
// right after it, on the clock of this host, in whole microseconds. Redis granted the permits
// between them.
type Grant struct {
	Start, End time.Time
	Permits    int64
}

// Crowd lets the crowd loose on the limiter and returns when its time is over. A crowd that ctx
// ends goes on in Java all the same.
func (l *Limiter) Crowd(ctx context.Context, c Crowd) (CrowdResult, error) {
	got, err := ask[struct {
		Grants  [][3]int64 // start and end in Unix microseconds, permits
		Denials int64
		Errors  map[string]int64
	}](ctx, l, request{
		Call:           "crowd",
		Threads:        c.Threads,
		Millis:         millis(c.Duration),
		Permits:        &c.Permits,
		AcquireTimeout: millis(c.AcquireTimeout),
	})
	if err != nil {
		return CrowdResult{}, err
	}
	result := CrowdResult{Grants: make([]Grant, len(got.Grants)), Denials: got.Denials, Errors: got.Errors}
	for i, g := range got.Grants {
		result.Grants[i] = Grant{Start: time.UnixMicro(g[0]), End: time.UnixMicro(g[1]), Permits: g[2]}
	}
	return result, nil
}
