package limit

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// forecast is the state of one policy after a call.
type forecast interface {
	// limit returns the Limit of a Decision.
	limit() int64

	// free returns the free permits. It is below 0 if more are taken than exist.
	free() int64

	// wait returns the time until so many permits are free. If known is false, the script did not
	// report that far, and the time is a lower bound.
	wait(permits int64) (after time.Duration, known bool)

	// reset returns the time until no permit is taken. It leaves out the last so many permits of the
	// call, as a request before them saw it.
	reset(later int64) time.Duration

	// earliest is Earliest of [engine.Forecast].
	earliest(ahead, permits int64) time.Duration
}

// sharedForecast has the optional methods of the forecast of a policy whose rate is in Redis: those of
// engine.Forecast.
type sharedForecast interface {
	Limit() int64
	Lag() time.Duration
	Renew() time.Duration
}

// waitersForecast has the optional methods of the forecast of a policy that grants other permits to
// callers that wait than to those that do not: see its section credit.
type waitersForecast interface {
	// forWaiters returns the forecast for callers that wait.
	forWaiters() forecast
}

// usage is the permits of a policy, and how many of them are taken.
type usage struct{ permits, taken int64 }

func (o usage) limit() int64 { return o.permits }

func (o usage) free() int64 { return o.permits - o.taken }

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
