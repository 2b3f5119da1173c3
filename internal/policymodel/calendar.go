package policymodel

import "time"

// Unit is a unit of the calendar, with the numbers of limit.Unit.
type Unit int

// The units of Calendar.
const (
	Day Unit = iota + 1
	Week
	Month
	Year
)

// Calendar is the model of limit.Calendar: a FixedWindow whose windows are the calendar's.
type Calendar struct {
	Permits int64
	Unit    Unit
	In      *time.Location

	window
	cached [2]int64 // the unit that was computed last
}

// Charge implements Model.
func (m *Calendar) Charge(now, n int64) {
	if now < m.cached[0] || now >= m.cached[1] {
		begin, end := UnitOf(m.Unit, m.In, time.UnixMicro(now))
		m.cached = [2]int64{begin.UnixMicro(), end.UnixMicro()}
	}
	m.charge(now, n, m.cached[1]+now%1000)
}

// Free implements Model.
func (m *Calendar) Free(now int64) int64 { return m.free(now, m.Permits) }

// Wait implements Model.
func (m *Calendar) Wait(now, n int64) int64 {
	if n <= m.Free(now) || m.ended(now) {
		return 0
	}
	return m.left(now)
}

// Clone implements Model.
func (m *Calendar) Clone() Model {
	c := *m
	return &c
}

// shown is the date that the clocks of a location show, as an increasing number.
func shown(t time.Time, in *time.Location) int {
	year, month, day := t.In(in).Date()
	return year*10000 + int(month)*100 + day
}

// UnitOf returns the unit of a time. It walks from noon to noon to its first day and to that of the
// next one. Then it walks from minute to minute to the first one at which clocks show that day.
func UnitOf(unit Unit, in *time.Location, t time.Time) (begin, end time.Time) {
	first := func(day time.Time) bool {
		switch unit {
		case Week:
			return day.Weekday() == time.Monday
		case Month:
			return day.Day() == 1
		case Year:
			return day.YearDay() == 1
		}
		return true
	}
	dawn := func(noon time.Time) time.Time {
		date := noon.Year()*10000 + int(noon.Month())*100 + noon.Day()
		at := noon.Add(-40 * time.Hour).Truncate(time.Minute)
		for shown(at, in) < date {
			at = at.Add(time.Minute)
		}
		return at
	}
	year, month, day := t.In(in).Date()
	noon := func(days int) time.Time { return time.Date(year, month, day+days, 12, 0, 0, 0, in) }
	back := 0
	for !first(noon(back)) {
		back--
	}
	ahead := 1
	for !first(noon(ahead)) || !dawn(noon(ahead)).After(t) {
		if first(noon(ahead)) {
			back = ahead
		}
		ahead++
	}
	return dawn(noon(back)), dawn(noon(ahead))
}
