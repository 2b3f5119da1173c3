package limit

import (
	"fmt"
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the locations of the test, on every host

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// place is a location of tzdata.
func place(name string) *time.Location {
	in, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return in
}

// moments are times of unusual days, with the length and the beginning of each day.
var moments = []struct {
	in, at string // Unix time's, as RFC 3339
	day    time.Duration
	begin  string // of the day, as its clocks show it
}{
	{"UTC", "2024-02-29T13:00:00Z", 24 * time.Hour, "2024-02-29T00:00:00"},
	{"UTC", "2023-02-28T23:59:59Z", 24 * time.Hour, "2023-02-28T00:00:00"},
	{"UTC", "2024-12-31T23:59:59Z", 24 * time.Hour, "2024-12-31T00:00:00"},
	{"UTC", "2000-01-01T00:00:00Z", 24 * time.Hour, "2000-01-01T00:00:00"},
	{"Europe/Berlin", "2025-03-30T00:59:59Z", 23 * time.Hour, "2025-03-30T00:00:00"},
	{"Europe/Berlin", "2025-03-30T01:00:00Z", 23 * time.Hour, "2025-03-30T00:00:00"},
	{"Europe/Berlin", "2025-10-26T00:30:00Z", 25 * time.Hour, "2025-10-26T00:00:00"},
	{"Europe/Berlin", "2025-10-26T01:30:00Z", 25 * time.Hour, "2025-10-26T00:00:00"},
	{"Europe/Berlin", "2025-12-31T23:00:00Z", 24 * time.Hour, "2026-01-01T00:00:00"},
	{"Europe/Berlin", "2025-12-31T22:59:59Z", 24 * time.Hour, "2025-12-31T00:00:00"},
	{"America/New_York", "2026-03-08T12:00:00Z", 23 * time.Hour, "2026-03-08T00:00:00"},
	{"America/New_York", "2026-11-01T05:30:00Z", 25 * time.Hour, "2026-11-01T00:00:00"},
	{"America/New_York", "2026-11-02T04:59:59Z", 25 * time.Hour, "2026-11-01T00:00:00"},
	{"America/New_York", "2024-03-01T04:59:59Z", 24 * time.Hour, "2024-02-29T00:00:00"},
	// Midnight is skipped.
	{"America/Sao_Paulo", "2018-11-04T03:00:00Z", 23 * time.Hour, "2018-11-04T01:00:00"},
	{"America/Sao_Paulo", "2018-11-04T02:59:59Z", 24 * time.Hour, "2018-11-03T00:00:00"},
	// 23:00 to midnight is repeated.
	{"America/Sao_Paulo", "2018-02-18T02:30:00Z", 25 * time.Hour, "2018-02-17T00:00:00"},
	// Midnight is repeated: the clocks go from 01:00 back to it.
	{"America/Havana", "2025-11-02T05:30:00Z", 25 * time.Hour, "2025-11-02T00:00:00"},
	// The clocks go from 00:01 back to 23:01 of the day before, which belongs to the day that has
	// begun.
	{"America/St_Johns", "2010-11-07T02:45:00Z", 25 * time.Hour, "2010-11-07T00:00:00"},
	{"America/St_Johns", "2010-11-07T03:45:00Z", 25 * time.Hour, "2010-11-07T00:00:00"},
	// There was no December 30.
	{"Pacific/Apia", "2011-12-30T09:59:59Z", 24 * time.Hour, "2011-12-29T00:00:00"},
	{"Pacific/Apia", "2011-12-30T10:00:00Z", 24 * time.Hour, "2011-12-31T00:00:00"},
	{"Australia/Lord_Howe", "2026-04-04T16:00:00Z", 24*time.Hour + 30*time.Minute, "2026-04-05T00:00:00"},
	// The clock changes of a location are listed to about 2037. After these, the offset of the last day
	// of a leap year ends before it begins in Go.
	{"America/New_York", "2040-12-31T12:00:00Z", 24 * time.Hour, "2040-12-31T00:00:00"},
	{"Europe/Berlin", "2040-12-31T22:30:00Z", 24 * time.Hour, "2040-12-31T00:00:00"},
	{"America/Santiago", "2041-01-01T02:30:00Z", 24 * time.Hour, "2040-12-31T00:00:00"},
	{"Australia/Lord_Howe", "2040-12-30T13:30:00Z", 24 * time.Hour, "2040-12-31T00:00:00"},
	{"Pacific/Kiritimati", "2026-05-31T10:00:00Z", 24 * time.Hour, "2026-06-01T00:00:00"},
}

// TestCalendar_ClockChanges_UnitsMatchTheModel: the units of unusual times are the expected ones
// and those of the model.
func TestCalendar_ClockChanges_UnitsMatchTheModel(t *testing.T) {
	for _, test := range moments {
		at, err := time.Parse(time.RFC3339, test.at)
		require.NoError(t, err)
		in := place(test.in)
		begin, end := policymodel.UnitOf(policymodel.Day, in, at)
		assert.Equal(t, test.begin, begin.In(in).Format("2006-01-02T15:04:05"), "%v", test)
		assert.Equal(t, test.day, end.Sub(begin), "%v", test)
		for unit := Day; unit <= Year; unit++ {
			args := Calendar{1, unit, in}.arguments(nil, at)
			require.Len(t, args, 3)
			begin, end := policymodel.UnitOf(policymodel.Unit(unit), in, at)
			want := []string{"1", fmt.Sprint(begin.UnixMilli()), fmt.Sprint(end.UnixMilli())}
			assert.Equal(t, want, args, "%v: %v", test, unit)
		}
	}
	args := Calendar{1, Day, place("Pacific/Apia")}.arguments(nil, time.Date(2011, 12, 30, 9, 0, 0, 0, time.UTC))
	assert.Equal(t, []string{"1325152800000", "1325239200000"}, args[1:])
	// A program can make its own location.
	far := time.FixedZone("Far", 100*3600)
	noon := time.Date(2026, 5, 5, 12, 0, 0, 0, far)
	assert.Equal(t, fmt.Sprint(noon.Add(-12*time.Hour).UnixMilli()), Calendar{1, Day, far}.arguments(nil, noon)[1])
}

// TestCalendar_ServerTime_UnitIsTheServers: the unit is that of the server's time, however wrong
// the host's clock is, for every call.
func TestCalendar_ServerTime_UnitIsTheServers(t *testing.T) {
	f := newClocked(t)
	f.client = rratelimiter.New(f.connect(), rratelimiter.WithServerTime())
	berlin := place("Europe/Berlin")
	for _, server := range []time.Time{
		time.Now(), time.Now().AddDate(0, 0, 1), time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 3),
		time.Date(2035, 3, 25, 12, 0, 0, 0, berlin),
		time.Date(1999, 12, 31, 23, 59, 59, 0, berlin),
	} {
		f.redis.SetTime(server)
		_, end := policymodel.UnitOf(policymodel.Day, berlin, server)
		l := New(f.client, "name", FixedWindow{10, time.Second, true}, Calendar{3, Day, berlin}, SlidingLog{10, time.Second})
		want := rratelimiter.Decision{Allowed: true, Limit: 3, Remaining: 1,
			ResetAfter: time.Duration(end.UnixMilli()-server.UnixMilli()) * time.Millisecond}
		got := redistest.Result(t, l.Take, 2)
		assert.Equal(t, want, got, server)
		f.redis.FlushAll()
		assert.EqualValues(t, 3, redistest.Peek(t, l)[1].Remaining)
		got = redistest.Result(t, l.Charge, 2)
		assert.Equal(t, want.ResetAfter, got.ResetAfter, server)
		require.NoError(t, l.Release(t.Context(), 2))
		assert.True(t, redistest.Result(t, l.TryAcquire, 2))
		require.NoError(t, l.Acquire(t.Context(), 1), "a queue's call")
		f.redis.FlushAll()
	}
}

// TestCalendar_KeyWithoutExpiry_EndsWithTheUnitOfRedis: the clock of the Client that finds the key is in another unit.
func TestCalendar_KeyWithoutExpiry_EndsWithTheUnitOfRedis(t *testing.T) {
	day := (24 * time.Hour).Microseconds()
	for _, off := range []int64{0, -day, day} {
		f := newClocked(t)
		f.setClock(f.server + off)
		l := New(f.client, "name", Calendar{10, Day, nil})
		left := micros(day-f.server%day).Truncate(time.Millisecond) + time.Millisecond
		require.NoError(t, f.redis.Set(l.protocol.keys[0], "6"))
		require.True(t, redistest.Result(t, l.Take, 2).Allowed)
		assert.EqualValues(t, 1, redistest.Result(t, l.Charge, 1).Remaining, "each call has taken once")
		d := redistest.Result(t, l.Take, 2)
		assert.False(t, d.Allowed)
		assert.Equal(t, left, d.ResetAfter)
		text, expiry := f.counter(l)
		assert.Equal(t, "9", text)
		assert.Equal(t, left, expiry)
	}
}

// TestCalendarForecast_Earliest_UsesCalendarLengths: permits above those of a month use the next
// months, with their own lengths.
func TestCalendarForecast_Earliest_UsesCalendarLengths(t *testing.T) {
	now := time.Date(2024, 1, 20, 0, 0, 0, 0, time.UTC)
	end := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	o := Calendar{10, Month, nil}.forecast(numbersReply(t, 4, end.Sub(now).Milliseconds(), end.UnixMilli()))
	for permits, want := range map[int64]time.Time{
		6: now, 7: end, 16: end, 17: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC),
		6 + 130: time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC),
	} {
		assert.Equal(t, want.Sub(now), o.Earliest(0, permits), permits)
	}
	for _, permits := range []int64{120000, math.MaxInt64} {
		assert.Equal(t, engine.Never, o.Earliest(0, permits), permits)
	}
}
