package oracle

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// Crowd is Java threads that take permits of one limiter in a loop.
type Crowd struct {
	Threads  int
	Duration time.Duration
	Permits  int64 // of each call
	// AcquireTimeout is the timeout of a call. With 0 a thread calls tryAcquire(permits), with a short
	// pause after a denial. Otherwise it calls tryAcquire(permits, timeout, unit), with a shorter
	// timeout at the end of the Duration.
	AcquireTimeout time.Duration
}

// CrowdResult has the results of the calls of a Crowd.
type CrowdResult struct {
	Grants  []Grant
	Denials int64
	// Errors counts failed calls by exception and message, without the details that Redisson appends.
	// An error ends no thread.
	Errors map[string]int64
}

// Book books the calls in a ledger, as those of Java. Errors have only a message.
func (r CrowdResult) Book(book *ledger.Ledger) {
	for _, g := range r.Grants {
		book.Granted(ledger.Grant{Start: g.Start, End: g.End, Permits: g.Permits, Who: "java"})
	}
	book.Denied(r.Denials)
	for message, n := range r.Errors {
		book.Failed(&Error{Message: message}, n)
	}
}

// Grant is a successful call of a Crowd. Start is read right before the call and End right after
// it, on the clock of this host, in whole microseconds.
type Grant struct {
	Start, End time.Time
	Permits    int64
}

// Crowd runs the crowd and returns at its end. If ctx ends before, the crowd continues in Java.
func (l *Limiter) Crowd(ctx context.Context, c Crowd) (CrowdResult, error) {
	got, err := send[struct {
		Grants  [][3]int64 // start and end in Unix microseconds, permits
		Denials int64
		Errors  map[string]int64
	}](ctx, l, request{
		Call:           "crowd",
		Threads:        c.Threads,
		Millis:         c.Duration.Milliseconds(),
		Permits:        c.Permits,
		AcquireTimeout: c.AcquireTimeout.Milliseconds(),
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
