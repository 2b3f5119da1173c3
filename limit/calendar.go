package limit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Calendar grants Permits in each day, week, month or year of the calendar of a location. It is a
// [FixedWindow] with windows as long as in the calendar: a day on which clocks change has 23 or 25
// hours. A unit begins at its first midnight. If clocks skip that midnight, the unit begins at the
// first time after it, such as 01:00. If clocks go back over midnight, the repeated hours belong to
// the unit that has begun. The clock of Redis begins and ends units.
//
// Windows are shared by the name of the location: two locations with one name share a key, whatever
// their rules. time.Local is named "Local" on all hosts: use it only if all hosts are set to the
// same location.
type Calendar struct {
	Permits int64          // a unit, 1 to 2^53
	Unit    Unit           // Day, Week, Month or Year
	In      *time.Location // nil means UTC
}

// Unit is a unit of the calendar.
type Unit int

// The units of [Calendar].
const (
	Day   Unit = iota + 1 // begins at midnight
	Week                  // begins on Monday
	Month                 // begins on the 1st
	Year                  // begins on 1 January
)

// units describes each unit: its dates, and its length with the hour that clocks may go back.
var units = map[Unit]struct {
	name                string
	years, months, days int
	window              time.Duration // the usual length; 0 if the lengths differ
	longest             time.Duration
}{
	Day:   {name: "Day", days: 1, window: 24 * time.Hour, longest: 25 * time.Hour},
	Week:  {name: "Week", days: 7, window: 7 * 24 * time.Hour, longest: 7*24*time.Hour + time.Hour},
	Month: {name: "Month", months: 1, longest: 31*24*time.Hour + time.Hour},
	Year:  {name: "Year", years: 1, longest: 366*24*time.Hour + time.Hour},
}

// String returns the unit's name.
func (u Unit) String() string {
	if name := units[u].name; name != "" {
		return name
	}
	return fmt.Sprintf("Unit(%d)", int(u))
}

var _ = policy.Register(policy.Kind[Calendar]{
	Name:     "calendar",
	Describe: Calendar.describe,
	Unit:     true,
	Fields:   []policy.Field{{Name: "in", Type: policy.Location}},
	New: func(r policy.Rate) Calendar {
		return Calendar{r.Permits, Unit(r.Unit), policy.Value[*time.Location](r, "in")}
	},
	Words:   calendarWords,
	FromKey: calendarOfKey,
	Short:   func(p Calendar) string { return "/" + p.word() + ",in=" + p.In.String() },
	Read:    func(_ Calendar, c policy.Content) (policy.State, bool) { return readWindow(c) },
})

func (p Calendar) describe() policy.Description {
	key := p.word() + ":" + noColons.Replace(p.In.String())
	d := windowDescription(key, p.Permits, units[p.Unit].longest, policy.Together)
	d.Label, d.Window, d.Interval, d.Dated = p.word(), units[p.Unit].window, 0, true
	return d
}

// calendarWords are the words of the units, in their order.
var calendarWords = []string{"day", "week", "month", "year"}

// noColons keeps the name of a location from looking like another key.
var noColons = strings.NewReplacer("%", "%25", ":", "%3A")

// word returns what the key begins with.
func (p Calendar) word() string { return strings.ToLower(p.Unit.String()) }

// calendarOfKey returns the calendar of a location. It returns an invalid one for an unknown location.
func calendarOfKey(word, place string) Calendar {
	in, err := time.LoadLocation(place)
	if err != nil {
		return Calendar{}
	}
	return Calendar{Permits: 1, Unit: Unit(slices.Index(calendarWords, word) + 1), In: in}
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

// arguments appends the permits and the bounds of a unit. If the server's clock is in another one, the script
// requests the arguments for its time.
func (p Calendar) arguments(args []string, now time.Time) []string {
	if now.IsZero() {
		now = time.Now()
	}
	current := recent[p.Unit].Load()
	if current == nil || current.in != p.In || now.Unix() < current.begin || now.Unix() >= current.end {
		current = p.unitOf(now)
		recent[p.Unit].Store(current)
	}
	return append(append(args, strconv.FormatInt(p.Permits, 10)), current.arguments[:]...)
}

// calendarUnit is the script's arguments for a unit of a location, and the seconds at which they
// hold.
type calendarUnit struct {
	in         *time.Location
	begin, end int64
	arguments  [2]string
}

// recent caches the latest units: to compute one takes as long as the rest of a lone call.
var recent [Year + 1]atomic.Pointer[calendarUnit]

// unitOf returns the unit of a time.
func (p Calendar) unitOf(now time.Time) *calendarUnit {
	date := p.date(now)
	for p.begin(date, 1) <= now.Unix() {
		date = p.next(date, 1) // the clocks have gone back over midnight
	}
	u := &calendarUnit{in: p.In, begin: p.begin(date, 0), end: p.begin(date, 1)}
	for i := range u.arguments {
		u.arguments[i] = strconv.FormatInt(p.begin(date, i)*1000, 10)
	}
	return u
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
func (p Calendar) next(date time.Time, n int) time.Time {
	u := units[p.Unit]
	return date.AddDate(n*u.years, n*u.months, n*u.days)
}

// begin returns the first time, in Unix seconds, at which the clocks show at least the midnight of
// a number of units later.
func (p Calendar) begin(date time.Time, later int) int64 {
	midnight := p.next(date, later).Unix()
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

func (p Calendar) forecast(r *redisx.Reply) forecast {
	f := newWindowForecast(p.Permits, units[p.Unit].longest, r, nil)
	end := time.Now().Add(f.end)
	if r.Len() > 0 {
		end = time.UnixMilli(r.Number())
	}
	f.next = func(windows int64) time.Duration {
		const most = 292 * 366 // days that a time.Duration can hold
		if windows > most {
			return engine.Never
		}
		// PTTL and the clock of the host are a little inaccurate.
		unit := p.date(end.Add(12 * time.Hour))
		return time.Unix(p.begin(unit, int(windows)), 0).Sub(time.Unix(p.begin(unit, 0), 0))
	}
	return f
}
