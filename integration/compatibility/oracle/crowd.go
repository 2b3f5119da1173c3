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

// Crowd runs the crowd, books its calls as those of Java, and returns at its end. Errors have only a
// message: the exception and its text, without the details that Redisson appends. An error ends no
// thread. If ctx ends before, the crowd continues in Java, and nothing is booked.
func (l *Limiter) Crowd(ctx context.Context, c Crowd, book *ledger.Ledger) error {
	got, err := send[struct {
		Grants  [][3]int64 // start and end of the call in Unix microseconds, permits
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
		return err
	}
	for _, g := range got.Grants {
		book.Granted(ledger.Grant{Start: time.UnixMicro(g[0]), End: time.UnixMicro(g[1]), Permits: g[2], Who: "java"})
	}
	book.Denied(got.Denials)
	for message, n := range got.Errors {
		book.Failed(&Error{Message: message}, n)
	}
	return nil
}
