package limit

import (
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// FixedWindow grants Permits in each window of an Interval. A window begins with its first permit,
// and the next one with the first permit after its end. Aligned windows begin at multiples of the
// interval since the Unix epoch, on every host alike.
//
// It is the cheapest policy. An interval around the end of a window can have twice the permits. If
// it must not, use [SlidingWindow] or [SlidingLog].
type FixedWindow struct {
	Permits  int64         // a window, 1 to 2^53
	Interval time.Duration // length of a window, whole milliseconds
	Aligned  bool
}

var _ = register(policy.Kind{
	Name:   "fixed_window",
	Fields: []policy.Field{{Name: "aligned", Type: policy.Bool}},
	New: func(r policy.Rate) any {
		return FixedWindow{r.Permits, r.Interval, policy.Value[bool](r, "aligned")}
	},
}, func(p FixedWindow) policy.Description {
	return policy.Description{
		Quota: p.Permits, Window: p.Interval, Refill: policy.Together, Local: windowShare(p.Permits, p.Interval),
	}
})

func (p FixedWindow) validate() error {
	if err := checkPermits("FixedWindow", "Permits", p.Permits); err != nil {
		return err
	}
	return checkInterval("FixedWindow", "Interval", p.Interval)
}

func (p FixedWindow) kind() string { return "fixedwindow" }

func (p FixedWindow) suffix(text []byte) []byte {
	if p.Aligned {
		return named(text, "aligned", p.Interval)
	}
	return named(text, "window", p.Interval)
}

func (p FixedWindow) settings(text []byte) []byte { return numbers(text, p.Permits) }

func (p FixedWindow) arguments(args []string, _ time.Time) []string {
	aligned := ""
	if p.Aligned {
		aligned = "aligned"
	}
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(p.Interval.Milliseconds(), 10), aligned)
}

func (p FixedWindow) keeps() []string { return inString }

func (p FixedWindow) most() int64 { return p.Permits }

func (p FixedWindow) forecast(_ int64, told []int64) (forecast, bool) {
	if len(told) != 2 {
		return nil, false
	}
	return windowForecast{p.Permits, told[0], micros(told[1]), p.Interval}, true
}

// windowForecast is a window that all permits leave at once.
type windowForecast struct {
	permits, count int64
	end            time.Duration // from now
	length         time.Duration // of the windows behind it
}

func (o windowForecast) limit() int64 { return o.permits }

func (o windowForecast) left() int64 { return o.permits - o.count }

func (o windowForecast) wait(permits int64) (time.Duration, bool) {
	if permits <= o.left() {
		return 0, true
	}
	return o.end, true
}

func (o windowForecast) reset() time.Duration {
	if o.count == 0 {
		return 0
	}
	return o.end
}

// earliest fills this window and then the next ones.
func (o windowForecast) earliest(wanted int64) time.Duration {
	left := max(0, o.left())
	if wanted <= left {
		return 0
	}
	windows := (wanted - left - 1) / o.permits
	if windows > int64(engine.Never/o.length) {
		return engine.Never
	}
	return later(o.end, time.Duration(windows)*o.length)
}
