package limit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestPolicies_EachKind_IsRead: from its key, from its notation, and from what its script writes.
func TestPolicies_EachKind_IsRead(t *testing.T) {
	kinds := map[string]bool{"pause": true, "penalty": true}
	for _, p := range everyPolicy {
		d, ok := policy.Of(p)
		require.True(t, ok, "%T", p)
		kinds[d.Name] = true
		stored, ok := policy.ParseKey(d.Key)
		require.True(t, ok, d.Key)
		require.NoError(t, Validate(stored.(Policy)), d.Key)
		short, rate := d.Name+"/", ":5/1h"
		switch k, _ := policy.Lookup(d.Name); {
		case k.Unit:
			rate = ":5/year"
		case k.NoRate:
			short, rate = d.Name, ":5,lease=1h"
		}
		assert.True(t, strings.HasPrefix(policy.Short(stored), short), policy.Short(stored))
		parsed, err := policy.Parse(d.Name + rate)
		require.NoError(t, err)
		assert.Equal(t, reflect.TypeOf(p), reflect.TypeOf(parsed))

		f := newClocked(t)
		redistest.Result(t, New(f.client, "name", p).Take, 4)
		key := f.redis.Keys()[0]
		assert.Equal(t, "{name}:"+d.Key, key)
		entries := make([]string, 1)
		switch d.Type {
		case "list":
			entries, err = f.redis.List(key)
		case "zset":
			entries, err = f.redis.ZMembers(key)
		default:
			entries[0], err = f.redis.Get(key)
		}
		require.NoError(t, err)
		text := entries[0]
		if d.Type == "zset" {
			scores, err := f.redis.SortedSet(key)
			require.NoError(t, err)
			for i, entry := range entries {
				entries[i] = fmt.Sprintf("%s %.0f", entry, scores[entry])
			}
			text, entries = strings.Join(entries, " "), entries[2:]
		}
		assert.LessOrEqual(t, len(text), int(d.Longest))
		state, ok := policy.Read(stored, policy.Content{Text: text, Entries: slices.Values(entries),
			TTL: f.redis.TTL(key).Milliseconds(), Now: time.UnixMicro(f.now)})
		require.True(t, ok, "%T: %q", p, entries)
		assert.True(t, d.Refill == policy.OnCredit || state.Taken == 4, "%T: %+v", p, state)
	}
	assert.Equal(t, policy.Names(), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), "each has a row in models")
}

// TestPolicies_Descriptions_AreComplete: whatever the fields of a policy are, and none is valid without.
func TestPolicies_Descriptions_AreComplete(t *testing.T) {
	for _, p := range append(everyPolicy, Calendar{5, Year, place("Europe/Berlin")}, Pause{time.Hour},
		Penalty{1, time.Minute, time.Hour, true},
		TokenBucket{1 << 53, 1, time.Second}, LeakyBucket{1, 1 << 53, time.Second}, Smooth{Permits: 1, Interval: time.Hour},
		Smooth{Permits: 5, Interval: time.Hour, Burst: time.Millisecond, WarmUp: time.Second}) {
		d, _ := policy.Of(p)
		require.NoError(t, d.Check(), "%+v", p)
		require.ErrorIs(t, Validate(reflect.Zero(reflect.TypeOf(p)).Interface().(Policy)), rratelimiter.ErrInvalidRate)
	}
}

type undescribed struct{ FixedWindow }

func TestValidate_IncompleteDescription_IsRefused(t *testing.T) {
	p := undescribed{FixedWindow{3, time.Hour, false}}
	err := Validate(p)
	require.ErrorIs(t, err, rratelimiter.ErrInvalidRate)
	assert.ErrorContains(t, err, "policy 1 is a limit.undescribed, give a policy of this package by value")
	t.Cleanup(policy.Register(policy.Kind[undescribed]{Name: "half", Describe: func(p undescribed) policy.Description {
		d, _ := policy.Of(p.FixedWindow)
		d.Local = policy.Local{}
		return d
	}}))
	err = Validate(p)
	require.ErrorIs(t, err, rratelimiter.ErrInvalidRate)
	assert.ErrorContains(t, err, "policy 1: half describes no local share")
}

// TestContributing_Policy_IsDrip: the page shows the policy that these tests run.
func TestContributing_Policy_IsDrip(t *testing.T) {
	source := golden.Text(t, "drip_test.go")
	page := golden.Text(t, "../CONTRIBUTING.md")
	var shown strings.Builder
	for line := range strings.Lines(source) {
		if line != "\n" {
			shown.WriteString("   ")
		}
		shown.WriteString(line)
	}
	assert.Contains(t, page, "   ```go\n"+shown.String()+"   ```\n")
}
