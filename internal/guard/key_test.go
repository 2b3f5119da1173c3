package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/limit"
)

func TestName_AnyKey_IsSafeAndUnique(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.1":              "web:192.0.2.1",
		"2001:db8::/64":          "web:2001:db8::/64",
		"{a}":                    "web:%7Ba%7D",
		"100%":                   "web:100%25",
		"a b\x00é":               "web:a%20b%00%C3%A9",
		strings.Repeat("x", 128): "web:" + strings.Repeat("x", 128),
		strings.Repeat("x", 129): "web:%sha256:",
		strings.Repeat("{", 43):  "web:%sha256:",
		"%sha256:0b6b8c0e9f":     "web:%25sha256:0b6b8c0e9f",
	} {
		if want == "web:%sha256:" { // and what it is
			assert.Regexp(t, "^web:%sha256:[0-9a-f]{64}$", Name("web", key))
			continue
		}
		assert.Equal(t, want, Name("web", key))
	}
}

// FuzzNames checks that different keys have different names, without braces.
func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Add("a|b", `a\|b`)
	f.Add("{", "%7B")
	f.Add(strings.Repeat("x", 129), "%sha256:")
	f.Fuzz(func(t *testing.T, a, b string) {
		if (Name("web", a) == Name("web", b)) != (a == b) {
			t.Errorf("%q and %q are named %q and %q", a, b, Name("web", a), Name("web", b))
		}
		if name := Name("web", a); strings.ContainsAny(name, "{} \n\x00") || len(name) > len("web:%sha256:")+128 {
			t.Errorf("%q is named %q", a, name)
		}
		if JoinKeys(a, b) == JoinKeys(b, a) && a != b {
			t.Errorf("%q and %q are joined the same both ways", a, b)
		}
		if JoinKeys(a+"|"+b, "c") == JoinKeys(a, b+"|c") {
			t.Errorf("%q and %q run into each other", a, b)
		}
	})
}

// Names are unique.
func TestTerm_EachPolicy_HasNameQuotaAndWindow(t *testing.T) {
	const second, day = time.Second, 24 * time.Hour
	cases := []struct {
		policy limit.Policy
		want   Term
	}{
		{limit.FixedWindow{Permits: 3, Interval: time.Second}, Term{"second", 3, time.Second, false}},
		{limit.Named("mine", limit.SlidingWindow{Permits: 3, Interval: time.Minute}),
			Term{"mine", 3, time.Minute, false}},
		{limit.SlidingLog{Permits: 3, Interval: time.Hour}, Term{"hour", 3, time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 90 * time.Second}, Term{"1m30s", 1, 90 * time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: 2 * time.Hour}, Term{"2h", 1, 2 * time.Hour, false}},
		{limit.FixedWindow{Permits: 1, Interval: 10 * time.Minute}, Term{"10m", 1, 10 * time.Minute, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second / 4}, Term{"250ms", 1, time.Second / 4, false}},
		{limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second}, Term{"bucket", 20, 4 * time.Second, false}},
		{limit.TokenBucket{Capacity: 1 << 53, Refill: 1, Interval: time.Hour},
			Term{"bucket-2", 1 << 53, 1 << 61, false}},
		{limit.LeakyBucket{Capacity: 10, Leak: 20, Interval: time.Second}, Term{"leaky", 10, time.Second / 2, false}},
		{limit.Smooth{Permits: 5, Interval: time.Second}, Term{"smooth", 5, time.Second, false}},
		{limit.Named("second-2", limit.SlidingLog{Permits: 2, Interval: time.Second}),
			Term{"second-2", 2, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: time.Second, Aligned: true}, Term{"second-3", 1, time.Second, false}},
		{limit.FixedWindow{Permits: 1, Interval: day}, Term{"day", 1, day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Day}, Term{"day-2", 3, day, false}},
		{limit.FixedWindow{Permits: 1, Interval: 7 * day}, Term{"week", 1, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Week}, Term{"week-2", 3, 7 * day, false}},
		{limit.Calendar{Permits: 3, Unit: limit.Month}, Term{"month", 3, 0, false}},
		{limit.InFlight{Permits: 3, Lease: time.Second}, Term{"in-flight", 3, 0, true}},
	}
	var policies []limit.Policy
	for _, c := range cases {
		policies = append(policies, c.policy)
	}
	d := Describe(policies...)
	for i, c := range cases {
		assert.Equal(t, c.want, d.Term(i))
	}
	assert.Equal(t, Term{Name: "default-20"}, d.Term(19))
	assert.Equal(t, Term{Name: "default"}, Describe().Term(0))
	assert.Equal(t, Term{Name: "default"}, Describe(nil).Term(0))
}
