package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// scriptTimes is the server's time of one lone acquire, in microseconds as Redis itself counts
// them, for each case.
type scriptTimes struct {
	cases               []scriptCase
	ours, their, ratios map[string][]float64 // one of each round
}

// scriptCase is one case of an acquire. The clock of both contenders is injected and
// moves by step with each call.
type scriptCase struct {
	name     string
	limit    limit
	step     time.Duration
	before   int // calls that bring the limiter into the state that is measured
	granted  bool
	policies func(limit) []policies.Policy // in place of a limiter of Redisson's layout
}

var scriptCases = []scriptCase{
	{name: "a grant", limit: generous, granted: true},
	{name: "a denial", limit: scarce, before: 10},
	// In each call the oldest grant of the window has expired.
	{name: "a grant that reclaims", limit: limit{1_000_000, time.Second}, step: time.Millisecond, before: 1000,
		granted: true},
	{name: "a grant by FixedWindow", limit: generous, granted: true, policies: fixedWindow},
	{name: "a grant by TokenBucket", limit: generous, step: time.Millisecond, granted: true, policies: tokenBucket},
	{name: "a grant by SlidingWindow", limit: generous, step: time.Millisecond, granted: true, policies: slidingWindow},
	{name: "a grant by SlidingLog", limit: generous, step: time.Millisecond, granted: true, policies: slidingLog},
	{name: "a grant by LeakyBucket", limit: generous, step: time.Millisecond, granted: true, policies: leakyBucket},
	{name: "a grant by Smooth", limit: generous, step: time.Millisecond, granted: true, policies: smooth},
	{name: "a grant by both at once", limit: generous, step: time.Millisecond, granted: true, policies: both},
}

const scriptRounds, scriptChunks, scriptCalls = 9, 40, 50

// clock is a time that the test moves.
type clock struct{ now time.Time }

// attempt is one acquire at the clock's time.
type attempt func(ctx context.Context) (bool, error)

func (b *bench) scriptTimes(ctx context.Context) (scriptTimes, error) {
	times := scriptTimes{scriptCases, make(map[string][]float64), make(map[string][]float64), make(map[string][]float64)}
	for _, c := range scriptCases {
		for range scriptRounds {
			ours, their, ratio, err := b.scriptTime(ctx, c)
			if err != nil {
				return times, fmt.Errorf("time of the script for %s: %w", c.name, err)
			}
			times.ours[c.name], times.their[c.name] = append(times.ours[c.name], ours), append(times.their[c.name], their)
			times.ratios[c.name] = append(times.ratios[c.name], ratio)
		}
	}
	return times, nil
}

// scriptTime is one round: medians of chunks, by turns. A ratio is of two chunks a few milliseconds
// apart, since the speed of a processor that others use as well changes within seconds.
func (b *bench) scriptTime(ctx context.Context, c scriptCase) (ours, their, ratio float64, err error) {
	if err := b.server.clear(ctx); err != nil {
		return 0, 0, 0, err
	}
	var attempts [2]func() (bool, error)
	for i, name := range names(2) {
		now := &clock{time.Now()}
		acquire, closeContender, err := b.lone(ctx, c, name, now, i == 0)
		if err != nil {
			return 0, 0, 0, err
		}
		defer closeContender()
		next := func() (bool, error) {
			now.now = now.now.Add(c.step)
			return acquire(ctx)
		}
		for range c.before {
			if granted, err := next(); err != nil || !granted {
				return 0, 0, 0, errors.Join(err, errors.New("a preparing call was denied"))
			}
		}
		// The first call may have to send the script's text.
		if _, err := next(); err != nil {
			return 0, 0, 0, err
		}
		attempts[i] = next
	}
	var took [2][]float64
	var ratios []float64
	for chunk := range scriptChunks {
		var both [2]float64
		for i := range attempts {
			turn := (chunk + i) % 2 // the first one alternates
			if both[turn], err = b.scriptChunk(ctx, c, attempts[turn]); err != nil {
				return 0, 0, 0, err
			}
			took[turn] = append(took[turn], both[turn])
		}
		ratios = append(ratios, both[0]/both[1])
	}
	// Medians, since a mean would include the times in which the server has no processor.
	return spreadOf(took[0]).median, spreadOf(took[1]).median, spreadOf(ratios).median, nil
}

// scriptChunk is the server's mean time of a few calls.
func (b *bench) scriptChunk(ctx context.Context, c scriptCase, next func() (bool, error)) (microseconds float64,
	err error) {
	before, err := b.server.usage(ctx)
	if err != nil {
		return 0, err
	}
	for range scriptCalls {
		granted, err := next()
		if err != nil {
			return 0, err
		}
		if granted != c.granted {
			return 0, fmt.Errorf("granted is %v, want %v", granted, c.granted)
		}
	}
	after, err := b.server.usage(ctx)
	if err != nil {
		return 0, err
	}
	was, is := before.commands["evalsha"], after.commands["evalsha"]
	// A count of the grants in the background adds calls, and its time counts.
	if calls := is.calls - was.calls; calls < scriptCalls {
		return 0, fmt.Errorf("%v calls of EVALSHA, want %d", calls, scriptCalls)
	}
	return float64((is.time - was.time).Nanoseconds()) / 1e3 / scriptCalls, nil
}

// lone opens one contender with its limiter set and its clock injected.
func (b *bench) lone(ctx context.Context, c scriptCase, name string, now *clock, ours bool) (attempt, func(), error) {
	script, err := b.redissonScript(ctx)
	if err != nil {
		return nil, nil, err
	}
	redis, err := dialPatiently(b.redis.Addr())
	if err != nil {
		return nil, nil, err
	}
	if err := setRates(ctx, redis, load{names: []string{name}, limit: c.limit}); err != nil {
		redis.Close()
		return nil, nil, err
	}
	if ours {
		client := rratelimiter.New(redis, rratelimiter.WithClock(func() time.Time { return now.now }))
		if c.policies != nil {
			limiter := policies.New(client, name, c.policies(c.limit)...)
			return func(ctx context.Context) (bool, error) { return limiter.TryAcquire(ctx, 1) }, redis.Close, nil
		}
		limiter := client.Limiter(name)
		return func(ctx context.Context) (bool, error) { return limiter.TryAcquire(ctx, 1) }, redis.Close, nil
	}
	keys := script.keysOf(name)
	return func(ctx context.Context) (bool, error) {
		granted, _, err := script.take(ctx, redis, keys, 1, now.now)
		return granted, err
	}, redis.Close, nil
}

func (t scriptTimes) table() string {
	var text strings.Builder
	text.WriteString("| | this library, us | Redisson's script, us | ratio (min..max) |\n| --- | --: | --: | --: |\n")
	for _, c := range t.cases {
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", c.name, short(spreadOf(t.ours[c.name]).median),
			short(spreadOf(t.their[c.name]).median), t.ratio(c.name))
	}
	return text.String()
}

func (t scriptTimes) ratio(name string) spread { return spreadOf(t.ratios[name]) }
