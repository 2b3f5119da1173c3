package engine

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// reported is what a reply of now reported.
func reported(f Forecast) knowledge {
	return knowledge{Forecast: f, begins: time.Now(), Sent: time.Now()}
}

func TestKnowledge_Deadlines_MissedOnesAreFound(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		free, permits int64
		ahead         int64
		timeout       time.Duration
		want          time.Duration
		age           time.Duration // of the forecast
		unknown       bool          // there is none
		took          time.Duration
		anyTime       bool // permits may return at any time
	}{
		"at the last moment":             {permits: 3, timeout: 2 * time.Second},
		"a moment too late":              {permits: 3, timeout: 2*time.Second - 1, want: 2 * time.Second},
		"behind others":                  {permits: 1, ahead: 3, timeout: time.Second, want: 2 * time.Second},
		"free permits are not waited":    {free: 4, permits: 4, timeout: 1, took: time.Second},
		"its time is over":               {free: 4, permits: 4, timeout: -1, want: 1},
		"more intervals than a Duration": {permits: 1, ahead: 1 << 62, timeout: time.Hour, want: Never},
		"and known for a while":          {permits: 1, ahead: 1 << 62, timeout: time.Hour, want: Never, age: time.Second},
		"nothing is known of the limit":  {permits: 1, ahead: 1000, timeout: 1, unknown: true},
		"known for a while, and more":    {permits: 3, timeout: time.Second - 1, want: time.Second, age: time.Second},
		"over, and what was known past":  {permits: 3, timeout: -time.Second, want: 1, age: 2 * time.Second},
		"the call takes too long":        {permits: 3, timeout: 2 * time.Second, want: 2*time.Second + 1, took: 1},
		"the call may take longer":       {permits: 3, timeout: 2*time.Second + 8, want: 2*time.Second + 9, took: 8},
		"and ends in time":               {permits: 3, timeout: 2*time.Second + 9, took: 8},
		"they may return at any time":    {permits: 3, timeout: 8, want: 9, took: 8, anyTime: true},
		"and there is time for a call":   {permits: 3, timeout: 9, took: 8, anyTime: true},
		"others take what is free":       {free: 4, permits: 4, ahead: 1, timeout: 8, want: 9, took: 8, anyTime: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := knowledge{begins: now.Add(-test.age), took: test.took}
			if !test.unknown {
				k.Forecast = &view{limit: 10, free: test.free, after: 2 * time.Second, every: 10 * time.Second}
			}
			if test.anyTime {
				k.Forecast = anyTime{k.Forecast.(*view)}
			}
			assert.Equal(t, test.want, k.missedBy(test.permits, test.ahead, now.Add(test.timeout), now))
			assert.Zero(t, k.missedBy(test.permits, test.ahead, time.Time{}, now), "a caller without a deadline is never late")
		})
	}
}

// TestKnowledge_FirstWaiter_IsAskedForInTime: when its permits are free, or halfway to its deadline.
func TestKnowledge_FirstWaiter_IsAskedForInTime(t *testing.T) {
	now := time.Now()
	forecast := &view{limit: 10, free: 2, after: 8 * time.Second, every: 10 * time.Second}
	for name, test := range map[string]struct {
		forecast Forecast
		permits  int64
		deadline time.Duration // 0 for none
		want     time.Duration
	}{
		"when they are free":            {forecast, 3, 0, 8 * time.Second},
		"they are free":                 {forecast, 2, time.Second, 0},
		"a deadline behind that":        {forecast, 3, 9 * time.Second, 8 * time.Second},
		"a deadline before that":        {early{forecast, time.Second}, 3, 5 * time.Second, 3 * time.Second},
		"a deadline that nothing meets": {early{forecast, 6 * time.Second}, 3, 5 * time.Second, 6 * time.Second},
		"above the limit":               {forecast, 11, 0, 0},
		"no forecast":                   {nil, 3, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := knowledge{Forecast: test.forecast, begins: now}
			deadline := now.Add(test.deadline)
			if test.deadline == 0 {
				deadline = time.Time{}
			}
			assert.Equal(t, test.want, k.servable(test.permits, deadline).Sub(now))
		})
	}
}

// early is a forecast by which permits may be free earlier than after RetryAfter.
type early struct {
	*view
	earliest time.Duration
}

func (f early) Earliest(int64, int64) time.Duration { return f.earliest }

// anyTime is a forecast by which permits may return at any time, as those of calls in flight.
type anyTime struct{ *view }

func (anyTime) Earliest(int64, int64) time.Duration { return 0 }

func (f anyTime) Denied(permits int64) (Decision, bool) {
	a, _ := f.view.Denied(permits)
	return a, false
}

// TestElapsed_ClocksDiffer_LongerOneCounts: the monotonic clock if the wall clock was set back, and the wall clock if
// the machine slept.
func TestElapsed_ClocksDiffer_LongerOneCounts(t *testing.T) {
	from := time.Now()
	for _, test := range []struct{ wall, monotonic, want time.Duration }{
		{time.Second, time.Second, time.Second},
		{time.Hour, 0, time.Hour},
		{-time.Hour, 0, 0},
		{-time.Hour, time.Second, time.Second},
	} {
		to := from.Add(test.wall)
		clock := (*struct {
			wall      uint64
			monotonic time.Duration
		})(unsafe.Pointer(&to))
		clock.monotonic += test.monotonic - test.wall
		assert.Equal(t, test.want, Elapsed(from, to), "%+v", test)
	}
	assert.Equal(t, time.Second, Elapsed(from, from.Add(time.Second).Round(0)), "by the wall clock alone")
}
