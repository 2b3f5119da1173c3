package limit

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// Calendar grants Permits in each day, week, month or year of the calendar of a location. It is a
// [FixedWindow] with windows as long as in the calendar: a day on which clocks change has 23 or 25
// hours. A unit begins at its first midnight. If clocks skip that midnight, the unit begins at the
// first time after it, such as 01:00. If clocks go back over midnight, the repeated hours belong to
// the unit that has begun.
//
// Windows are shared by the name of the location: two locations with one name share a key, whatever
// their rules. time.Local is named "Local" on all hosts: use it only if all hosts are set to the
// same location.
type Calendar struct {
	Permits int64 // a unit, 1 to 2^53
	Unit    Unit
	In      *time.Location // nil means UTC
}

// Unit is a unit of the calendar.
type Unit int

// The units of [Calendar].
const (
	Day  Unit = iota + 1
	Week      // begins on Monday
	Month
	Year
)

var unitNames = [...]string{Day: "Day", Week: "Week", Month: "Month", Year: "Year"}

// String returns the unit's name.
func (u Unit) String() string {
	if u < Day || u > Year {
		return fmt.Sprintf("Unit(%d)", int(u))
	}
	return unitNames[u]
}

var _ = register(policy.Kind{
	Name:   "calendar",
	Unit:   true,
	Fields: []policy.Field{{Name: "in", Type: policy.Location}},
	New: func(r policy.Rate) any {
		return Calendar{r.Permits, Unit(r.Unit), policy.Value[*time.Location](r, "in")}
	},
}, func(p Calendar) policy.Description {
	return policy.Description{
		Label: strings.ToLower(p.Unit.String()), Quota: p.Permits, Window: p.Unit.window(), Refill: policy.Together,
		Local: windowShare(p.Permits, p.Unit.longest()),
	}
})

// window returns the length of a unit whose length is nearly always the same, else 0.
func (u Unit) window() time.Duration {
	switch u {
	case Day:
		return 24 * time.Hour
	case Week:
		return 7 * 24 * time.Hour
	default:
		return 0
	}
}

// longest returns the longest duration of a unit, with the hour that clocks go back.
func (u Unit) longest() time.Duration {
	days := map[Unit]time.Duration{Day: 1, Week: 7, Month: 31, Year: 366}
	return days[u]*24*time.Hour + time.Hour
}

func (p Calendar) validate() error {
	if err := checkPermits("Calendar", "Permits", p.Permits); err != nil {
		return err
	}
	if p.Unit < Day || p.Unit > Year {
		return invalid("Calendar.Unit is %v, want Day, Week, Month or Year", p.Unit)
	}
	return nil
}

// GoString prints the name of the location, which decides what calls share.
func (p Calendar) GoString() string {
	return fmt.Sprintf("limit.Calendar{Permits:%d, Unit:limit.%v, In:%q}", p.Permits, p.Unit, p.In.String())
}

func (p Calendar) kind() string { return "calendar" }

func (p Calendar) suffix(text []byte) []byte {
	return append(append(append(text, strings.ToLower(p.Unit.String())...), ':'), noColons.Replace(p.In.String())...)
}

// noColons keeps the name of a location from looking like another suffix.
var noColons = strings.NewReplacer("%", "%25", ":", "%3A")

func (p Calendar) settings(text []byte) []byte { return numbers(text, p.Permits) }

// arguments appends the begins of the unit of a time, of the one before and of the next one. With
// the server's clock, the host's units are those of the server too, except near their ends; then
// the script requests the arguments for its time.
func (p Calendar) arguments(args []string, now time.Time) []string {
	if now.IsZero() {
		now = time.Now()
	}
	found := recent[p.Unit].Load()
	if found == nil || found.in != p.In || now.Unix() < found.begin || now.Unix() >= found.end {
		found = p.find(now)
		recent[p.Unit].Store(found)
	}
	return append(append(args, strconv.FormatInt(p.Permits, 10)), found.moments[:]...)
}

// foundUnit is the script's arguments for a unit of a location, and the seconds at which they hold.
type foundUnit struct {
	in         *time.Location
	begin, end int64
	moments    [4]string
}

// recent caches the units that were found last: to find one takes as long as the rest of a lone
// call.
var recent [Year + 1]atomic.Pointer[foundUnit]

// find returns the unit of a time.
func (p Calendar) find(now time.Time) *foundUnit {
	date := p.date(now)
	for p.begin(date, 1) <= now.Unix() {
		date = p.next(date, 1) // the clocks have gone back over midnight
	}
	found := &foundUnit{in: p.In, begin: p.begin(date, 0), end: p.begin(date, 1)}
	for i := range found.moments {
		found.moments[i] = strconv.FormatInt(p.begin(date, i-1)*1000, 10)
	}
	return found
}

// date returns the midnight at which the unit of a time begins: the location's clock time, as if in
// UTC.
func (p Calendar) date(t time.Time) time.Time {
	year, month, day := t.In(p.location()).Date()
	switch p.Unit {
	case Week:
		weekday := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
		day -= int(weekday+6) % 7
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func (p Calendar) location() *time.Location {
	if p.In == nil {
		return time.UTC
	}
	return p.In
}

// next returns the midnight at which the unit that many units later begins.
func (p Calendar) next(date time.Time, units int) time.Time {
	switch p.Unit {
	case Week:
		return date.AddDate(0, 0, 7*units)
	case Month:
		return date.AddDate(0, units, 0)
	case Year:
		return date.AddDate(units, 0, 0)
	default:
		return date.AddDate(0, 0, units)
	}
}

// begin returns the first time, in Unix seconds, at which the clocks show at least the midnight of
// a number of units later.
func (p Calendar) begin(date time.Time, units int) int64 {
	midnight := p.next(date, units).Unix()
	// Two days before, the clocks do not show it yet: no location has moved its clocks by more than
	// a day.
	at := time.Unix(midnight, 0).In(p.location())
	_, about := at.Zone()
	at = at.Add(-time.Duration(about)*time.Second - 48*time.Hour)
	for {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		if !end.IsZero() && !end.After(at) {
			// After the last change in the data of a location, the last day of a leap year ends
			// before it begins in Go (golang/go#81583).
			end = time.Date(at.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).In(p.location())
		}
		first := max(at.Unix(), midnight-int64(offset))
		if end.IsZero() || first < end.Unix() {
			return first
		}
		at = end
	}
}

func (p Calendar) keeps() []string { return inString }

func (p Calendar) most() int64 { return p.Permits }

func (p Calendar) forecast(_ int64, told []int64) (forecast, bool) {
	if len(told) != 3 {
		return nil, false
	}
	return calendarForecast{windowForecast{permits: p.Permits, count: told[0], end: micros(told[1])}, p, told[2]}, true
}

// calendarForecast is a window whose next ones have the calendar's lengths.
type calendarForecast struct {
	windowForecast
	policy Calendar
	ends   int64 // Unix milliseconds
}

// earliest fills this unit and then the next ones.
func (o calendarForecast) earliest(wanted int64) time.Duration {
	left := max(0, o.left())
	if wanted <= left {
		return 0
	}
	const most = 292 * 366 // days that a time.Duration can hold
	windows := (wanted - left - 1) / o.permits
	if windows > most {
		return engine.Never
	}
	end := time.UnixMilli(o.ends)
	last := time.Unix(o.policy.begin(o.policy.date(end), int(windows)), 0)
	return later(o.end, max(0, last.Sub(end)))
}
