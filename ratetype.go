package rratelimiter

import (
	"fmt"
	"time"
)

// RateType says who shares a rate. It is Redisson's RateType.
type RateType int

const (
	// Overall is one rate for all clients together: Redisson's RateType.OVERALL. It is the zero value.
	Overall RateType = 0
	// PerClient is a rate for each client of its own, counted by client ID: Redisson's RateType.PER_CLIENT.
	// All limiters of one [Client] count together.
	PerClient RateType = 1
)

// String gives Redisson's name of the type.
func (t RateType) String() string {
	switch t {
	case Overall:
		return "OVERALL"
	case PerClient:
		return "PER_CLIENT"
	}
	return fmt.Sprintf("RateType(%d)", int(t))
}

// maxPermits is the largest rate: above it a Lua number, a double, no longer tells two neighbours apart.
const maxPermits = 1 << 53

// Rate is the configuration of a limiter: in any window of one Interval, at most Permits permits.
//
// The zero value is no valid rate: Permits and Interval must be given.
type Rate struct {
	Type      RateType      // who shares the rate
	Permits   int64         // permits in an Interval, 1 to 2^53
	Interval  time.Duration // above 0, in whole milliseconds
	KeepAlive time.Duration // a limiter unused for so long is deleted; 0 keeps it for ever, else at least Interval
}

func (r Rate) validate() error {
	switch {
	case r.Type != Overall && r.Type != PerClient:
		return fmt.Errorf("%w: type is %v, want Overall or PerClient", ErrInvalidRate, r.Type)
	case r.Permits < 1 || r.Permits > maxPermits:
		return fmt.Errorf("%w: %d permits, want 1 to 2^53", ErrInvalidRate, r.Permits)
	case r.Interval <= 0 || r.Interval%time.Millisecond != 0:
		return fmt.Errorf("%w: interval is %v, want whole milliseconds above 0", ErrInvalidRate, r.Interval)
	case r.KeepAlive < 0 || r.KeepAlive%time.Millisecond != 0:
		return fmt.Errorf("%w: keep-alive is %v, want whole milliseconds, or 0 to keep the limiter for ever", ErrInvalidRate, r.KeepAlive)
	case r.KeepAlive > 0 && r.KeepAlive < r.Interval:
		return fmt.Errorf("%w: keep-alive is %v, want at least the interval, %v", ErrInvalidRate, r.KeepAlive, r.Interval)
	}
	return nil
}

// Decision is what [Limiter.Take] found: the answer, and the numbers that a caller shows its own users.
//
// Remaining may be too low, and never too high, while more than 256 grants that have left the window wait to be taken
// back: a call takes back as many, and more only where the permits asked for need it.
//
// The zero value is a denial with nothing known.
type Decision struct {
	Allowed    bool          // whether the permits were granted
	Limit      int64         // the rate's permits
	Remaining  int64         // permits free after this call
	RetryAfter time.Duration // until the requested permits could be had, if nobody takes more; 0 where Allowed
	ResetAfter time.Duration // until every permit is free again, if nobody takes more
}
