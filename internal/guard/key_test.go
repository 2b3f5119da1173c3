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
		if Join(a, b) == Join(b, a) && a != b {
			t.Errorf("%q and %q are joined the same both ways", a, b)
		}
		if Join(a+"|"+b, "c") == Join(a, b+"|c") {
			t.Errorf("%q and %q run into each other", a, b)
		}
	})
}

func TestNames_Policies_AreUnique(t *testing.T) {
	policies := []limit.Policy{
		limit.FixedWindow{Permits: 1, Interval: time.Second}, limit.SlidingWindow{Permits: 1, Interval: time.Minute},
		limit.SlidingLog{Permits: 1, Interval: time.Hour}, limit.Calendar{Permits: 1, Unit: limit.Month},
		limit.FixedWindow{Permits: 1, Interval: 90 * time.Second}, limit.FixedWindow{Permits: 1, Interval: 2 * time.Hour},
		limit.FixedWindow{Permits: 1, Interval: 10 * time.Minute},
		limit.FixedWindow{Permits: 1, Interval: 250 * time.Millisecond},
		limit.TokenBucket{Capacity: 1, Refill: 1, Interval: time.Second},
		limit.LeakyBucket{Capacity: 1, Leak: 1, Interval: time.Second},
		limit.Smooth{Permits: 1, Interval: time.Second}, limit.SlidingLog{Permits: 2, Interval: time.Second},
		limit.FixedWindow{Permits: 1, Interval: time.Second, Aligned: true},
		limit.FixedWindow{Permits: 1, Interval: 24 * time.Hour}, limit.FixedWindow{Permits: 1, Interval: 7 * 24 * time.Hour},
	}
	for i, name := range map[int]string{1: "mine", 11: "second-2"} {
		policies[i] = MustName("", name, policies[i])
	}
	d := Describe(policies...)
	for i, want := range []string{
		"second", "mine", "hour", "month", "1m30s", "2h", "10m", "250ms", "bucket", "leaky", "smooth", "second-2",
		"second-3", "day", "week", "default-16",
	} {
		assert.Equal(t, want, d.Term(i).Name)
	}
	assert.Equal(t, Term{Name: "default"}, Describe().Term(0))
	assert.Equal(t, Term{Name: "default"}, Describe(nil).Term(0))
}

func TestQuotaAndWindow_EachPolicy_AreKnown(t *testing.T) {
	for _, c := range []struct {
		policy limit.Policy
		quota  int64
		window time.Duration
	}{
		{limit.FixedWindow{Permits: 3, Interval: time.Second}, 3, time.Second},
		{limit.SlidingWindow{Permits: 3, Interval: time.Minute}, 3, time.Minute},
		{limit.SlidingLog{Permits: 3, Interval: time.Minute}, 3, time.Minute},
		{limit.Calendar{Permits: 3, Unit: limit.Day}, 3, 24 * time.Hour},
		{limit.Calendar{Permits: 3, Unit: limit.Week}, 3, 7 * 24 * time.Hour},
		{limit.Calendar{Permits: 3, Unit: limit.Month}, 3, 0},
		{limit.TokenBucket{Capacity: 20, Refill: 5, Interval: time.Second}, 20, 4 * time.Second},
		{limit.LeakyBucket{Capacity: 10, Leak: 20, Interval: time.Second}, 10, 500 * time.Millisecond},
		{limit.Smooth{Permits: 5, Interval: time.Second}, 5, time.Second},
		{limit.TokenBucket{Capacity: 1 << 53, Refill: 1, Interval: time.Hour}, 1 << 53, longestPeriod},
	} {
		got := Describe(c.policy).Term(0)
		assert.Equal(t, c.quota, got.Quota, "%+v", c.policy)
		assert.Equal(t, c.window, got.Window, "%+v", c.policy)
	}
}
