package limit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestPolicies_Keys_AreRead: every policy reads the key of its own, and no other text. Other keys would
// forget what was taken.
func TestPolicies_Keys_AreRead(t *testing.T) {
	for part, short := range map[string]string{
		"window:60000": "fixed_window/1m", "aligned:1000": "fixed_window/1s,aligned",
		"sliding:60000:60": "sliding_window/1m,cells=60",
		"log:500":          "sliding_log/500ms",
		"bucket:1000":      "token_bucket/1s", "leaky:7200000": "leaky_bucket/2h", "smooth:1000": "smooth/1s",
		"warmup:86400000": "smooth/1d,warm_up",
		"day:UTC":         "calendar/day,in=UTC", "week:Europe/Berlin": "calendar/week,in=Europe/Berlin",
		"month:Local": "calendar/month,in=Local",
		"year:UTC":    "calendar/year,in=UTC", "pause": "pause",
		"window:9007199254740": "fixed_window/2501999h47m34.74s", "smooth:9007199254740": "smooth/2501999h47m34.74s",
		"warmup:9007199254740": "smooth/2501999h47m34.74s,warm_up",
	} {
		p, ok := policy.ParseKey(part)
		require.True(t, ok, part)
		require.NoError(t, limit.Validate(p.(limit.Policy)), part)
		assert.Equal(t, short, policy.Short(p))
		d, ok := policy.Of(p)
		require.True(t, ok)
		assert.Equal(t, part, d.Key)
		assert.Equal(t, strings.HasPrefix(part, "log:"), d.Type == "list", part)
	}
	for _, part := range []string{
		"", "window", "window:", "window:0", "window:-1", "window:01", "window:+1", "window:1 ", "window:9007199254741",
		"window:99999999999999999999", "window:1:1", "sliding:1000", "sliding:1000:", "sliding:1000:0", "sliding:1000:1",
		"sliding:1000:1001", "sliding:1000:7", "sliding:1000:010", "day:", "day:Nowhere", "day:../UTC", "hour:UTC",
		"redisson:1", "pause:", "pause:1h",
	} {
		p, ok := policy.ParseKey(part)
		assert.False(t, ok && limit.Validate(p.(limit.Policy)) == nil, part)
	}
}

func TestPolicies_Notation_IsParsed(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for text, want := range map[string]limit.Policy{
		"fixed_window:5/1m":             limit.FixedWindow{Permits: 5, Interval: time.Minute},
		"fixed_window:5/s,aligned":      limit.FixedWindow{Permits: 5, Interval: time.Second, Aligned: true},
		"sliding_window:5/minute":       limit.SlidingWindow{Permits: 5, Interval: time.Minute},
		"sliding_window:5/1m,cells=60":  limit.SlidingWindow{Permits: 5, Interval: time.Minute, Cells: 60},
		"sliding_log:5/500ms":           limit.SlidingLog{Permits: 5, Interval: 500 * time.Millisecond},
		"token_bucket:5/1s":             limit.TokenBucket{Capacity: 5, Refill: 5, Interval: time.Second},
		"token_bucket:5/1s,capacity=20": limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second},
		"leaky_bucket:5/1s,capacity=20": limit.LeakyBucket{Capacity: 20, Leak: 5, Interval: time.Second},
		"smooth:5/1s":                   limit.Smooth{Permits: 5, Interval: time.Second},
		"calendar:5/day":                limit.Calendar{Permits: 5, Unit: limit.Day},
		"calendar:5/week,in=UTC":        limit.Calendar{Permits: 5, Unit: limit.Week, In: time.UTC},
		"pause:most=90s":                limit.Pause{Most: 90 * time.Second},
		"pause:90s":                     limit.Pause{Most: 90 * time.Second},
		"penalty:20,within=1m,for=10m":  limit.Penalty{Denials: 20, Within: time.Minute, For: 10 * time.Minute},
		"penalty:denials=1,within=1s,for=1d,renew": limit.Penalty{Denials: 1, Within: time.Second, For: 24 * time.Hour,
			Renew: true},
		"in_flight:8,lease=30s":            limit.InFlight{Permits: 8, Lease: 30 * time.Second},
		"in_flight:lease=30s,in_flight=8":  limit.InFlight{Permits: 8, Lease: 30 * time.Second},
		"calendar:5/year,in=Europe/Berlin": limit.Calendar{Permits: 5, Unit: limit.Year, In: berlin},
		"smooth:5/1s,burst=2s,warm_up=3s": limit.Smooth{
			Permits: 5, Interval: time.Second, Burst: 2 * time.Second, WarmUp: 3 * time.Second,
		},
	} {
		p, err := policy.Parse(text)
		require.NoError(t, err, text)
		if c, ok := p.(limit.Calendar); ok && c.In != nil { // each load returns another pointer
			assert.Equal(t, want.(limit.Calendar).In.String(), c.In.String())
			c.In = want.(limit.Calendar).In
			p = c
		}
		assert.Equal(t, want, p, text)
	}
	for text, want := range map[string]string{
		"fixed_window": `"" is no rate`, "x:5/1s": `no policy "x", want one of calendar, `,
		"window:5/1s": `no policy "window"`, "fixed_window:5": `"5" is no rate`,
		"calendar:x/day": "is no rate", "calendar:5/30s": "of the calendar", "calendar:5/day,in=": `no time zone ""`,
		"calendar:5/day,in=Local": `no time zone "Local"`, "fixed_window:5/1m,aligned=1": `"1" is not true or false`,
		"token_bucket:5/1s,capacity=0": `capacity: "0" is not a whole number of permits, 1 to 2^53`,
		"sliding_window:5/1s,cells=1":  `cells: "1" is not a whole number of cells, 2 to 1000`,
		"smooth:5/1s,x=1":              `smooth has no field "x"`,
		"smooth:5/1s,burst=x":          `burst: "x" is no length of time`,
		"pause:most=1h,1h":             `pause has no field "1h"`, "pause:": `pause has no field ""`,
		"penalty:0,within=1m,for=1m": `denials: "0" is not a whole number of denials, 1 to 2^53`,
		"in_flight:8,lease=x":        `lease: "x" is no length of time`,
		"in_flight:0,lease=30s":      `in_flight: "0" is not a whole number, 1 to 1000000`,
	} {
		_, err := policy.Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestPolicies_Texts_AreRead(t *testing.T) {
	const second, now = 1000, 1_700_000_000_000
	lasting := func(taken, after int64) policy.State {
		return policy.State{Taken: taken, Ends: after, Returns: []policy.Return{{AfterMS: after, Permits: taken}}}
	}
	logged := policy.State{
		Taken: 6, Ends: 2 * second,
		Returns: []policy.Return{{AfterMS: second, Permits: 2}, {AfterMS: 2 * second, Permits: 4}},
	}
	inFlight := policy.State{
		Taken: 6, Ends: 2 * second,
		Returns: []policy.Return{{AfterMS: second, Permits: 2}, {AfterMS: 2 * second, Permits: 4}},
		Places: []policy.Place{
			{AgeMS: 3 * second, EndsMS: 2 * second, Permits: 4, Renewed: true},
			{AgeMS: second, EndsMS: second, Permits: 2},
		},
	}
	const begun1, begun3 = "loyw3uag", "loyw3sqw"             // seconds ago
	half := policy.State{Taken: 2, Ends: second, About: true} // 4 were taken a second ago
	for _, test := range []struct {
		part, text string // the entries of a list end in commas
		want       policy.State
		unread     bool
	}{
		{"window:60000", "3", lasting(3, second), false},
		{"aligned:60000", "3", lasting(3, second), false},
		{"day:UTC", "3", lasting(3, second), false},
		{"window:60000", "0", policy.State{}, false},
		{"window:60000", "", policy.State{}, true},
		{"window:60000", "e 3", policy.State{}, true},
		{"window:60000", "-3", policy.State{}, true},
		{"sliding:2000:2", "e 5 1700000000 2 1699999999:3", policy.State{Taken: 5, Ends: 3 * second, Returns: []policy.Return{
			{AfterMS: 2 * second, Permits: 3}, {AfterMS: 3 * second, Permits: 2},
		}}, false},
		{"sliding:2000:2", "e 5 1700000000 2 1699999997:3", lasting(2, 3*second), false},
		{"sliding:2000:2", "e 5 1700000000 2 1700000001:3", policy.State{}, true},
		{"sliding:2000:2", "e 5 1700000000", policy.State{}, true},
		{"bucket:1000", "e 1699999999000000 4 0 2", half, false},
		{"bucket:1000", "e 1699999999000000 4 0 2 99999999999999999999", half, false},
		{"leaky:1000", "e 1699999999000000 4 0 2 1 99999999999999999999 3", policy.State{}, true},
		{"bucket:1000", "e 1699999999000000 4 0 2 1 2 3", policy.State{}, true},
		{"bucket:1000", "e 1699999999000000 4 0 2 x", policy.State{}, true},
		{"smooth:1000", "e 1.5 1699999999000000 3000000 10:1", policy.State{Busy: 2 * second, Ends: second}, false},
		{"smooth:1000", "e 1e+30 1699999999000000 0 10:1", policy.State{Ends: second}, false},
		{"smooth:1000", "e 1e+30 1699999999000000 0 5 6 7", policy.State{}, true},
		{"warmup:1000", "e 1.5 1699999999000000 3000000", policy.State{}, true},
		{"smooth:1000", "e x 1699999999000000 3000000 10:1", policy.State{}, true},
		{"pause", "paused", policy.State{Busy: second}, false},
		{"pause", "1700000001000 0", policy.State{}, true},
		{"penalty", "0", policy.State{Busy: second}, false},
		{"penalty", "7", policy.State{}, false},
		{"penalty", "", policy.State{}, true},
		{"penalty", "7 1", policy.State{}, true},
		{"log:2000", "e 1699999997000 0 1 1,e 1699999999000 0 2 3,e 1700000000000 0 4 7", logged, false},
		{"log:2000", "e 1699999999000 0 2 9007199254740991,e 1700000000000 0 4 3", logged, false},
		{"log:2000", "x,e 1699999990000 0 2 2", policy.State{}, false}, // all are expired
		{"log:2000", "x,e 1700000000000 0 2 2", policy.State{}, true},
		{"log:2000", "e 1700000000000 0 2", policy.State{}, true},
		{"inflight", begun3 + "x 0 1 9 1699999999999," + begun1 + "y 1 2 2000 1700000001000," + begun3 +
			"z 0 4 2000 1700000002000,clock -1699999990000 held -7 " + begun3 + "z 0 4 2000 1700000002000", inFlight, false},
		{"inflight", begun3 + "x 0 1 9 1699999999999," + begun1 + "y 1 2 2000 1700000001000," + begun3 +
			"z 0 4 2000 1700000002000,held -7 clock -1699999990000 " + begun3 + "z 0 4 2000 1700000002000", inFlight, false},
		{"inflight", "x,clock -1700000001001 held -7 " + begun1 + " 0 4 9 1700000001000", policy.State{}, false}, // all are expired
		{"inflight", "x,clock -1699999990000 held -7 " + begun1 + " 0 4 9 1700000002000", policy.State{}, true},
		{"inflight", "clock -1699999990000 held -7", policy.State{}, true},
		{"inflight", "clock -1699999990000 x -7 " + begun1 + " 0 4 9 1700000002000", policy.State{}, true},
		{"inflight", "clock -1699999990000 held -7 " + begun1 + " 0 4 1700000002000", policy.State{}, true},
		{"inflight", "clock -1699999990000 held -7 a 0 4 9 1700000002000", policy.State{}, true},
	} {
		p, ok := policy.ParseKey(test.part)
		require.True(t, ok)
		entries := strings.Split(test.text, ",")
		text := entries[len(entries)-1]
		if test.part == "inflight" {
			entries = entries[:len(entries)-1]
		}
		ttl := int64(second)
		if strings.ContainsAny(test.part[:1], "bls") && !strings.HasPrefix(test.part, "log:") || test.part == "warmup:1000" {
			ttl += 1000 // which a bucket stays after it is full
		}
		got, ok := policy.Read(p, policy.Content{
			Text: text, Entries: slices.Values(entries), TTL: ttl, Now: time.UnixMilli(now),
		})
		assert.Equal(t, test.unread, !ok, "%s %s", test.part, test.text)
		if ok {
			assert.Equal(t, test.want, got, "%s %s", test.part, test.text)
		}
	}
}
