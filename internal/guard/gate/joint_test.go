package gate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestJoint_With_TakesWhatOneCallDecides(t *testing.T) {
	client, _ := guardtest.Connect(t)
	member := func(name string, policies int) gate.Member {
		var all []limit.Policy
		for i := range policies {
			all = append(all, limit.FixedWindow{Permits: 1, Interval: time.Duration(i+1) * time.Second})
		}
		return gate.Member{Limiter: limit.New(client, name, all...), Policies: all}
	}
	shared := func(name string) gate.Member {
		return gate.Member{Limiter: client.Limiter(name), Policies: []limit.Policy{nil}, Once: true}
	}
	for name, tt := range map[string]struct {
		cluster bool
		members []gate.Member
		size    int // of the joint; one less than the members if the last one is there already
		ok      bool
	}{
		"others":                  {false, []gate.Member{member("a", 1), member("b", 2)}, 2, true},
		"ten policies":            {false, []gate.Member{member("a", 4), member("b", 6)}, 2, true},
		"eleven policies":         {false, []gate.Member{member("a", 5), member("b", 6)}, 1, false},
		"one limiter twice":       {false, []gate.Member{member("a", 1), member("a", 1)}, 1, false},
		"a shared limiter twice":  {false, []gate.Member{member("b", 1), shared("a"), shared("a")}, 2, true},
		"other slots":             {true, []gate.Member{member("a", 1), member("b", 1)}, 1, false},
		"one slot":                {true, []gate.Member{member("{x}:a", 1), member("{x}:b", 1)}, 2, true},
		"a shared limiter's name": {false, []gate.Member{member("a", 1), shared("a")}, 2, true},
	} {
		var joint gate.Joint
		ok := true
		for _, m := range tt.members {
			joint, ok = joint.With(m, tt.cluster)
		}
		assert.Equal(t, tt.ok, ok, name)
		assert.Len(t, joint, tt.size, name)
		limiter, policies := joint.Limiter()
		assert.NotNil(t, limiter, name)
		assert.NotEmpty(t, policies, name)
	}
}

func TestShown_IsTheDecisiveDecision(t *testing.T) {
	granted := func(remaining int64) rratelimiter.Decision {
		return rratelimiter.Decision{Allowed: true, Remaining: remaining}
	}
	denied := func(after time.Duration) rratelimiter.Decision { return rratelimiter.Decision{RetryAfter: after} }
	for name, tt := range map[string]struct {
		each []rratelimiter.Decision
		want int
	}{
		"one":                         {[]rratelimiter.Decision{granted(3)}, 0},
		"the fewest permits":          {[]rratelimiter.Decision{granted(3), granted(1), granted(2)}, 1},
		"the first of equals":         {[]rratelimiter.Decision{granted(1), granted(1)}, 0},
		"a denial before a grant":     {[]rratelimiter.Decision{granted(0), denied(0)}, 1},
		"a grant after a denial":      {[]rratelimiter.Decision{denied(1), granted(0)}, 0},
		"the longest time to a retry": {[]rratelimiter.Decision{denied(1), granted(0), denied(2)}, 2},
	} {
		assert.Equal(t, tt.want, outage.MostRestrictive(tt.each), name)
	}
}
