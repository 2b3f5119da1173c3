package rratelimiter

import (
	"fmt"
	"time"
)

// RateType is the scope of a rate: Redisson's RateType.
type RateType int

const (
	// Overall is one rate for all clients together: Redisson's RateType.OVERALL. It is the zero
	// value.
	Overall RateType = 0
	// PerClient is one rate for each client, by client ID: Redisson's RateType.PER_CLIENT. All
	// Limiters of one [Client] with one name share it.
	PerClient RateType = 1
)

// String returns Redisson's name of the type.
func (t RateType) String() string {
	switch t {
	case Overall:
		return "OVERALL"
	case PerClient:
		return "PER_CLIENT"
	}
	return fmt.Sprintf("RateType(%d)", int(t))
}

// maxPermits is the largest rate: up to it, a Lua number (a double) represents every integer.
const maxPermits = 1 << 53

// Rate is the configuration of a limiter: in any window of one Interval, at most Permits permits.
//
// The zero value is invalid: Permits and Interval are required.
type Rate struct {
	Type      RateType      // Overall or PerClient
	Permits   int64         // permits in an Interval, 1 to 2^53
	Interval  time.Duration // above 0, in whole milliseconds
	KeepAlive time.Duration // a limiter unused for this long is deleted; at least Interval, or 0 for never
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
		return fmt.Errorf("%w: keep-alive is %v, want whole milliseconds, or 0 to keep the limiter for ever",
			ErrInvalidRate, r.KeepAlive)
	case r.KeepAlive > 0 && r.KeepAlive < r.Interval:
		return fmt.Errorf("%w: keep-alive is %v, want at least the interval, %v", ErrInvalidRate, r.KeepAlive, r.Interval)
	}
	return nil
}

// Decision is the result of [Limiter.Take] and [Limiter.TakeWithin]: whether the permits were granted, and the numbers for a
// user of the caller.
//
// Remaining is never too high. It may be too low while more than 256 expired grants are still to be
// removed: a call removes as many, and more only if its permits need them.
//
// The zero value is a denial without numbers.
type Decision struct {
	Allowed    bool          // whether the permits were granted
	Limit      int64         // the rate's permits
	Remaining  int64         // permits free after this call
	RetryAfter time.Duration // until the requested permits are free, if no other caller takes them; 0 if Allowed
	ResetAfter time.Duration // until all permits are free, if no caller takes more
}
