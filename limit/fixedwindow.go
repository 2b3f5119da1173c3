package limit

import (
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// FixedWindow grants Permits in each window of an Interval. A window begins with its first permit,
// and the next one with the first permit after its end. Aligned windows begin at multiples of the
// interval since the Unix epoch.
//
// The clock of Redis ends windows, not that of the program: a window is a number with an expiry. A program in
// any language shares it with one command: see the page [Choosing a policy].
//
// It is the cheapest policy. An interval around the end of a window can have twice the permits. If
// it must not, use [SlidingWindow] or [SlidingLog].
type FixedWindow struct {
	Permits  int64         // a window, 1 to 2^53
	Interval time.Duration // length of a window, whole milliseconds
	Aligned  bool          // windows begin at multiples of Interval since the Unix epoch
}

var _ = policy.Register(policy.Kind[FixedWindow]{
	Name:     "fixed_window",
	Describe: FixedWindow.describe,
	Fields:   []policy.Field{{Name: "aligned", Type: policy.Bool}},
	New: func(r policy.Rate) FixedWindow {
		return FixedWindow{r.Permits, r.Interval, policy.Value[bool](r, "aligned")}
	},
	Words: []string{"window", "aligned"},
	FromKey: func(word, rest string) FixedWindow {
		return FixedWindow{1, policy.KeyInterval(rest), word == "aligned"}
	},
	Short: func(p FixedWindow) string {
		if p.Aligned {
			return ",aligned"
		}
		return ""
	},
	Read: func(_ FixedWindow, c policy.Content) (policy.State, bool) { return readWindow(c) },
})

func (p FixedWindow) describe() policy.Description {
	word := "window"
	if p.Aligned {
		word = "aligned"
	}
	d := windowDescription(keyPart(word, p.Interval), p.Permits, p.Interval, policy.Together)
	if p.Aligned {
		d.Lua = "alignedwindow"
	}
	return d
}

// readWindow reads the number of taken permits. The key expires when the window ends.
func readWindow(c policy.Content) (s policy.State, ok bool) {
	n, ok := numbersOf(c.Text)
	if ok && n[0] > 0 {
		s = policy.State{Taken: n[0], Ends: max(0, c.TTL)}
		s.Returns = []policy.Return{{AfterMS: s.Ends, Permits: n[0]}}
	}
	return s, ok
}

func (p FixedWindow) validate() error { return checkRate("FixedWindow", p.Permits, p.Interval) }

func (p FixedWindow) arguments(args []string, _ time.Time) []string {
	return append(args, strconv.FormatInt(p.Permits, 10), strconv.FormatInt(p.Interval.Milliseconds(), 10))
}

func (p FixedWindow) forecast(r *redisx.Reply) forecast {
	next := func(windows int64) time.Duration { return repeat(p.Interval, windows) }
	return newWindowForecast(p.Permits, p.Interval, r, next)
}

// newWindowForecast reads the taken permits and the milliseconds until a window of a length ends.
func newWindowForecast(permits int64, length time.Duration, r *redisx.Reply,
	next func(int64) time.Duration) windowForecast {
	taken, left := r.Number(), r.Number()
	if left < 0 { // the key has no expiry yet
		left = length.Milliseconds()
	}
	return windowForecast{usage{permits, taken}, time.Duration(left) * time.Millisecond, next}
}

// windowForecast is a window at whose end all permits return.
type windowForecast struct {
	usage
	end  time.Duration                           // from now
	next func(windows int64) (end time.Duration) // from the end of this window: when so many more have begun
}

func (o windowForecast) wait(permits int64) (time.Duration, bool) {
	if permits <= o.Free() {
		return 0, true
	}
	return o.end, true
}

func (o windowForecast) reset(int64) time.Duration {
	if o.taken == 0 {
		return 0
	}
	return o.end
}

// Earliest fills this window and then the next ones.
func (o windowForecast) Earliest(ahead, permits int64) time.Duration {
	wanted, free := ahead+permits, max(0, o.Free())
	if wanted <= free {
		return 0
	}
	return add(o.end, o.next((wanted-free-1)/o.permits))
}
