package ruleset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestParse_Limits_AreThePoliciesOfPackageLimit(t *testing.T) {
	for text, want := range map[string]limit.Policy{
		`10/s`:                                   limit.SlidingWindow{Permits: 10, Interval: time.Second},
		`{permits: 10, per: 30s}`:                limit.SlidingWindow{Permits: 10, Interval: 30 * time.Second},
		`{rate: 10/1m30s, cells: 9}`:             limit.SlidingWindow{Permits: 10, Interval: 90 * time.Second, Cells: 9},
		`{rate: 10/min, policy: fixed_window}`:   limit.FixedWindow{Permits: 10, Interval: time.Minute},
		`{rate: 10/2d, policy: sliding_log}`:     limit.SlidingLog{Permits: 10, Interval: 48 * time.Hour},
		`{rate: 10/month, policy: calendar}`:     limit.Calendar{Permits: 10, Unit: limit.Month},
		`{rate: 10/w, policy: calendar}`:         limit.Calendar{Permits: 10, Unit: limit.Week},
		`{in_flight: 8, lease: 30s}`:             limit.InFlight{Permits: 8, Lease: 30 * time.Second},
		`{in_flight: 8, lease: 1s, renew: true}`: limit.InFlight{Permits: 8, Lease: time.Second, Renew: true},
	} {
		s := parsed(t, "rules: [{name: a, key: ip, limits: "+text+"}]")
		assert.Equal(t, []limit.Policy{want}, s.rules[0].limits.policies, text)
	}
	r := parsed(t, `rules: [{name: a, limits: {redisson: q, rate: 5/s, type: per_client, keep_alive: 1h}}]`)
	assert.Equal(t,
		rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 5, Interval: time.Second, KeepAlive: time.Hour},
		*r.rules[0].limits.redisson[0].rate)
}

func TestCost_ContentLength_IsRoundedUp(t *testing.T) {
	for text, want := range map[string]map[int64]int64{
		"content_length": {0: 1, 1: 1, 7: 7, -1: -1}, "content_length/10": {0: 1, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3, -1: -1},
	} {
		rule := parsed(t, one("key: ip, limits: 1/s, cost: "+text)).rules[0]
		for length, permits := range want {
			r := request("PUT /")
			r.ContentLength = length
			got, err := rule.cost.permitsOf(ofHTTP(r))
			if permits < 0 {
				assert.ErrorIs(t, err, httplimit.ErrLengthRequired)
				continue
			}
			assert.NoError(t, err)
			assert.Equal(t, permits, got, "%s of %d", text, length)
		}
	}
}

// changing is a client that learns late that Redis is a single one.
type changing struct {
	rueidis.Client
	mode *rueidis.ClientMode
}

func (c changing) Mode() rueidis.ClientMode { return *c.mode }

func TestVersion_ModeOfTheClientChanges_IsAskedFor(t *testing.T) {
	mode := rueidis.ClientModeCluster
	v := compile(noRules, rratelimiter.New(changing{mode: &mode}), gate.Settings{})
	require.True(t, v.cluster())
	mode = rueidis.ClientModeStandalone
	require.False(t, v.cluster())
}

// Rules of different slots decide one after another.
func TestCalls_Cluster_JoinsRulesOfOneSlot(t *testing.T) {
	calls := func(client *rratelimiter.Client, file string) [][]string {
		var names [][]string
		for _, s := range compile(parsed(t, file), client, gate.Settings{}).choicesOf(ofHTTP(request("GET /"))) {
			_, err := s.Limiter.Take(ended, 1)
			require.True(t, errors.Is(err, context.Canceled), "%v", err)
			names = append(names, s.rules)
		}
		return names
	}
	file := "match: all\nrules: [{name: a, key: ip, limits: 1/h}, {name: b, key: all, limits: [2/h, {redisson: r}]}]"
	assert.Equal(t, [][]string{{"a", "b"}}, calls(offline, file))
	assert.Equal(t, [][]string{{"a"}, {"b"}, nil}, calls(offlineCluster, file))
	large := strings.Replace(file, "limits: 1/h", "limits: [1/s, 1/m, 1/h, 1/d, 1/2s, 1/3s, 1/4s, 1/5s, 1/6s]", 1)
	assert.Equal(t, [][]string{{"a"}, {"b"}}, calls(offline, large), "11 limits")
	assert.Equal(t, [][]string{{"a", "b"}, nil}, calls(offlineCluster, "domain: '{shop}'\n"+file))
	assert.Equal(t, [][]string{{"a", "b"}},
		calls(offlineCluster, strings.Replace("domain: '{shop}'\n"+file, "redisson: r", "redisson: '{shop}:r'", 1)))
}

// A file without settings keeps those of the options.
func TestSettings_File_ReplacesThoseOfTheOptions(t *testing.T) {
	options := gate.Settings{Mode: limit.Open, Deadline: time.Second, Wait: time.Minute, MaxWaiting: 3}
	for fields, want := range map[string]gate.Settings{
		"}]": options,
		", on_failure: closed, wait: 3s, shadow: true}]\ndeadline: 2s\nmax_waiting: 4\nspread: 5s\non_invalid: on_failure": {
			Mode: limit.Closed, Deadline: 2 * time.Second, Wait: 3 * time.Second, MaxWaiting: 4,
			Spread: gate.Spread{Most: 5 * time.Second}, Shadow: true, InvalidFails: true,
		},
	} {
		got := options
		file := parsed(t, "rules: [{name: a, key: ip, limits: 1/s"+fields)
		file.rules[0].settings.apply(&got)
		file.settings.apply(&got)
		assert.Equal(t, want, got, fields)
	}
}

// BenchmarkParse reads 10,000 rules.
func BenchmarkParse(b *testing.B) {
	file := []byte(large(10_000))
	for b.Loop() {
		s, problems := Parse("rules.yaml", file)
		require.Empty(b, problems)
		require.Len(b, s.rules, 10_000)
	}
}

// FuzzParse: no file makes Parse panic, and the limiters of a valid file can be called.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"rules: []", large(2), one("key: ip, limits: 1/s"),
		`{"rules": [{"name": "a", "ban": true, "match": {"grpc": "/a/b"}}]}`,
		"address: {trusted: [10.0.0.0/8], header: Forwarded, ipv6_bits: 48}\n" +
			"defaults: {key: ip, policy: smooth, skip: {paths: [/a/, '/{$}'], ranges: ['::1'], methods: GET}}\n" +
			"match: all\nrules: [{name: a, limits: [5/s, {redisson: q, rate: 2/d}], wait: 1s, on_failure: {local: 0.5}}]",
		"rules: [{name: a, match: ['GET a.b/{x}/{y...}', {headers: {A: '*'}, ranges: 10.0.0.0/8}], " +
			"key: [path:y, constant:z], limits: {permits: 3, per: 1m, policy: calendar}, overrides: [{key: [a, z], unlimited: true}]}]",
	} {
		f.Add(text, "/a/b?c", "f.yaml")
		f.Add(text, "/%2e/%2F//x", "f.json")
	}
	f.Fuzz(func(t *testing.T, text, target, name string) {
		file, problems := Parse(name, []byte(text))
		if file == nil {
			assert.NotEmpty(t, problems[0].Error())
			return
		}
		r := request("GET /")
		r.URL.Path = target
		r.URL.RawPath = target
		for _, e := range compile(file, offline, gate.Settings{}).choicesOf(file.HTTP(r)) {
			if e.Err == nil && e.Limiter != nil {
				_, _ = e.Limiter.Take(ended, 1)
			}
		}
	})
}
