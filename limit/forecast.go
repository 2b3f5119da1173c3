package limit

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// forecast is the state of one policy after a call. The exported methods are those of
// [engine.Forecast] for this policy. A policy embeds usage, which has them where nothing is special.
type forecast interface {
	Limit() int64 // of a Decision
	Free() int64
	Earliest(ahead, permits int64) time.Duration
	Lag(wanted int64) time.Duration
	Renew() time.Duration

	// wait returns the time until so many permits are free. If known is false, the script did not
	// report that far, and the time is a lower bound.
	wait(permits int64) (after time.Duration, known bool)

	// reset returns the time until no permit is taken. It leaves out the last so many permits of the
	// call, as a request before them saw it.
	reset(later int64) time.Duration

	// forWaiters returns the forecast for callers that wait, if a section "credit" grants them other
	// permits than callers that do not; else nil.
	forWaiters() forecast
}

// usage is the permits of a policy, and how many of them are taken.
type usage struct{ permits, taken int64 }

func (o usage) Limit() int64 { return o.permits }

func (o usage) Free() int64 { return o.permits - o.taken }

func (usage) Lag(int64) time.Duration { return 0 }

func (usage) Renew() time.Duration { return engine.Never }

func (usage) forWaiters() forecast { return nil }

// micros converts microseconds to a duration, at most engine.Never.
func micros(n int64) time.Duration {
	if n > int64(engine.Never/time.Microsecond) {
		return engine.Never
	}
	return time.Duration(n) * time.Microsecond
}

// add returns the sum of two durations, at most engine.Never.
func add(a, b time.Duration) time.Duration {
	if b > 0 && a > engine.Never-b {
		return engine.Never
	}
	return a + b
}

// repeat returns a duration so many times, at most engine.Never.
func repeat(d time.Duration, times int64) time.Duration {
	if times > int64(engine.Never/d) {
		return engine.Never
	}
	return d * time.Duration(times)
}
