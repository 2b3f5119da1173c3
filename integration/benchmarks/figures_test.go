package main

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestHistogram_Quantiles_AreFound(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond,
		1: time.Millisecond} {
		require.InEpsilon(t, want, h.quantile(q), 1.0/64, "quantile %v", q)
	}
	h = histogram{}
	h.add(time.Hour)
	h.add(-time.Second)
	require.Zero(t, h.quantile(0.5))
	require.Greater(t, h.quantile(1), 16*time.Second, "what is longer than the histogram counts as the longest")
}

func TestMeasure_UnexpectedResult_IsRefused(t *testing.T) {
	ctx := t.Context()
	redis, err := dial(servers.Single(t).Addr())
	require.NoError(t, err)
	defer redis.Close()
	b := &bench{server: &server{redis}}
	ours := contenders[0]
	granting := load{callers: 1, names: names(1), limit: limit{10, time.Hour}, expect: allGranted}
	denying := granting
	denying.expect = allDenied

	for _, c := range []struct {
		name    string
		load    load
		tally   tally
		refused string
	}{
		{"errors", granting, tally{decisions: 10, granted: 9, failed: 1, err: errors.New("no")}, "10% errors"},
		{"a denial", granting, tally{decisions: 10, granted: 9}, "10% denied"},
		{"a grant", denying, tally{decisions: 10, granted: 1}, "10% granted"},
		{"permits that Redis does not know", granting, tally{decisions: 1, granted: 1, allPermits: 1},
			"callers were granted 1 permits, Redis remembers 0"},
		{"nothing", granting, tally{}, "0 decisions, too few"},
		{"only denials", denying, tally{decisions: 10}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := b.check(ctx, ours, c.load, c.tally, usage{}, usage{})
			require.NoError(t, err)
			require.Equal(t, c.refused, f.refused)
		})
	}
}

func TestAccount_LostOrDoubledPermits_IsAnError(t *testing.T) {
	ctx := t.Context()
	redis, err := dial(servers.Single(t).Addr())
	require.NoError(t, err)
	defer redis.Close()
	b := &bench{server: &server{redis}}
	rate := limit{10, time.Hour}
	account := func(free int64, permits ...uint32) error {
		require.NoError(t, b.server.clear(ctx))
		var grants []preparedGrant
		for _, n := range permits {
			grants = append(grants, preparedGrant{time.Now(), n})
		}
		require.NoError(t, b.prepare(ctx, "one", free, grants))
		return b.server.account(ctx, []string{"one"}, rate, 7)
	}
	require.NoError(t, account(3, 5, 2))
	require.ErrorContains(t, account(4, 5, 2), "7 permits of one are taken and 4 free")
	require.ErrorContains(t, account(4, 6), "callers were granted 7 permits, Redis remembers 6")
	require.ErrorContains(t, account(0, 11), "11 permits of one lie in one window")
}

func TestRatio_Rounds_IsTheirMedian(t *testing.T) {
	r := runs{figures: map[string][]figures{
		"ours":   {{rate: 10}, {rate: 40}, {rate: 90}},
		"script": {{rate: 5}, {rate: 10}, {rate: 30}},
		"broken": {{rate: 1}, {rate: 1}, {rate: 1, refused: "errors"}},
	}}
	require.Equal(t, spread{3, 2, 4}, r.ratio("ours", "script", rateOf))
	require.True(t, math.IsNaN(r.ratio("ours", "broken", rateOf).median), "a refused round compares with nothing")
	require.InDelta(t, 3, r.toBest([]string{"broken", "script"}), 0)
}

func TestCrowd_Overtaken_IsRefused(t *testing.T) {
	start := time.Now()
	served := func(after ...time.Duration) []time.Time {
		var times []time.Time
		for _, d := range after {
			times = append(times, start.Add(d))
		}
		return times
	}
	inOrder := checkCrowd(served(0, 10*time.Millisecond, 5*time.Millisecond), time.Second, 3, 3, true)
	require.Empty(t, inOrder.refused, "woken by the same call in any order")
	overtaken := checkCrowd(served(50*time.Millisecond, 10*time.Millisecond, 5*time.Millisecond), time.Second, 3, 3, true)
	require.Equal(t, "1 callers of 3 were overtaken", overtaken.refused)
	unserved := checkCrowd([]time.Time{start, {}}, time.Second, 1, 3, true)
	require.Equal(t, 1, unserved.unserved)
	require.NotEmpty(t, unserved.refused)
	tooMany := checkCrowd(served(0, 0), time.Second/2, 51, 51, true)
	require.Contains(t, tooMany.refused, "the rate allows 50")
}

// The slow link is what makes its scenarios slow.
func TestLink_EachByte_IsDelayed(t *testing.T) {
	slow, err := openLink(servers.Single(t).Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, slow.close()) }()
	redis, err := dial(slow.addr)
	require.NoError(t, err)
	defer redis.Close()
	start := time.Now()
	require.NoError(t, redis.Do(context.Background(), redis.B().Ping().Build()).Error())
	require.GreaterOrEqual(t, time.Since(start), 2*oneWay)
}
