package main

import (
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// story is what happens to a limiter of each of the names, once as OVERALL and once as PER_CLIENT.
// It keeps to what this library does to the letter as Redisson does, so that a replay can compare
// everything.
type story struct {
	name  string
	names []string
	steps []step
}

type step struct {
	later  time.Duration // time that passes before the call
	call   calls.Call
	oldest string // the first release that has the call, or that does as the newest
}

// keepAlive is the first release with a keepAliveTime, and ownPair the first whose setRate deletes the
// client's own keys.
const (
	keepAlive = "3.38.0"
	ownPair   = "3.27.0"
	withArgs  = "4.4.0"
)

var stories = []story{
	{
		name: "keys",
		names: []string{
			"limiter", "a:b", "with space", "ünïcode 限流", "line\nbreak", `quo"te`, "{tag}", "{tag}:limiter",
			"before{tag}after", "two{a}{b}",
			"closed}", "open{", "{}", "empty{}tag", "}{",
		},
		steps: []step{
			{call: calls.Rate(calls.TrySetRate, 10, time.Hour)},
			{call: calls.Of(calls.TryAcquire, 3)},
			{call: calls.Of(calls.TryAcquire, 8)},
			{call: calls.Just(calls.Delete)},
		},
	},
	{
		name: "grants", names: []string{"grants", "{tag}:grants"},
		steps: []step{
			{call: calls.Just(calls.TryAcquireOne)},
			{call: calls.Rate(calls.TrySetRate, 100_000, time.Hour)},
			{call: calls.Rate(calls.TrySetRate, 7, time.Minute)},
			{call: calls.Just(calls.GetConfig)},
			{call: calls.Just(calls.TryAcquireOne)},
			{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 255)},
			{later: 10 * time.Minute, call: calls.Of(calls.Acquire, 256)},
			{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 65_537)},
			{call: calls.Of(calls.TryAcquire, 100_001)},
			{call: calls.Of(calls.TryAcquire, 100_000)},
			{call: calls.Just(calls.AvailablePermits)},
			// The first two grants have expired.
			{later: 45 * time.Minute, call: calls.Of(calls.TryAcquire, 256)},
			{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 99_999)},
			// All have left.
			{later: 5 * time.Hour, call: calls.Of(calls.TryAcquire, 100_000)},
			{later: 90 * time.Minute, call: calls.Of(calls.TryAcquire, 1)},
		},
	},
	{
		name: "large grants", names: []string{"large"},
		steps: []step{
			{call: calls.Rate(calls.SetRate, 1<<53, 24*time.Hour)},
			{call: calls.Of(calls.TryAcquire, 1<<24+1)},
			{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 1<<31)},
			{later: 10 * time.Minute, call: calls.Of(calls.TryAcquire, 1<<32-1)},
			{later: 23*time.Hour + 50*time.Minute, call: calls.Of(calls.TryAcquire, 1)},
		},
	},
	{
		name: "new rates", names: []string{"rates"},
		steps: []step{
			{call: calls.Rate(calls.SetRate, 10, time.Hour)},
			{call: calls.Of(calls.TryAcquire, 4), oldest: ownPair},
			{call: calls.Rate(calls.SetRate, 5, 2*time.Hour), oldest: ownPair},
			{call: calls.Of(calls.TryAcquire, 3), oldest: ownPair},
			{later: 40 * time.Minute, call: calls.Of(calls.TryAcquire, 2), oldest: ownPair},
			{call: calls.KeepState(calls.SetRateArgs, 20, 2*time.Hour), oldest: withArgs},
			{call: calls.KeepState(calls.UpdateRate, 9, 30*time.Minute), oldest: withArgs},
			{call: calls.Rate(calls.UpdateRate, 8, time.Hour), oldest: withArgs},
		},
	},
	{
		name: "kept alive", names: []string{"alive", "{tag}:alive"},
		steps: []step{
			{call: calls.KeepAlive(calls.TrySetRate, 2*time.Hour), oldest: keepAlive},
			{later: 30 * time.Minute, call: calls.Of(calls.TryAcquire, 4), oldest: keepAlive},
			{later: 30 * time.Minute, call: calls.Of(calls.TryAcquire, 7), oldest: keepAlive},
			{later: 40 * time.Minute, call: calls.Of(calls.TryAcquire, 7), oldest: keepAlive},
			{call: calls.KeepAlive(calls.SetRate, 3*time.Hour), oldest: keepAlive},
		},
	},
}
