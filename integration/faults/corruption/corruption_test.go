// Package corruption corrupts the keys of a limiter as another program, an eviction or an operator
// could, and checks the results of its calls.
package corruption

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Keys are corrupted at random between calls. Each call works or names the corruption, no more than
// the rate is granted, and the limiter can be repaired.
func TestCorruption_EveryCall_WorksOrReturnsStateError(t *testing.T) {
	seed := env.Seed("CORRUPTION_SEED", rand.Uint64())
	rounds := int(env.Number("CORRUPTION_ROUNDS", 1500))
	t.Logf("CORRUPTION_SEED=%d", seed)

	server := servers.Single(t)
	client := server.Client(t)

	r := &run{lacksCopy: servers.VersionOf(t, client).Lacks(t, servers.CopyCommand),
		figures: ledger.Figures{Run: "corruption", Errors: map[string]int64{}}}
	for round := range rounds {
		r.round(t, client, round, rand.New(rand.NewPCG(seed, uint64(round))))
	}
	t.Log(r.figures)
	require.Positive(t, r.figures.Errors["state"], "no corruption was reported")
	require.Positive(t, r.figures.Grants, "no call succeeded")
}

// calls are those on the corrupt state, as often as they are made.
var calls = []string{"AvailablePermits", "Release", "TryAcquireWithin", "Acquire", "Take", "TryAcquire", "TryAcquire",
	"TryAcquire"}

type run struct {
	figures   ledger.Figures
	lacksCopy bool
}

// round sets a rate, takes permits, corrupts keys, makes calls and repairs the limiter.
func (r *run) round(t *testing.T, client rueidis.Client, round int, random *rand.Rand) {
	ctx, moment := t.Context(), time.UnixMilli(1_700_000_000_000)
	require.NoError(t, client.Do(ctx, client.B().Flushall().Build()).Error())
	c := rratelimiter.New(client, rratelimiter.WithClock(func() time.Time { return moment }))
	l := c.Limiter("corrupt")
	rate := rratelimiter.Rate{Type: rratelimiter.RateType(random.IntN(2)), Permits: 1 + random.Int64N(20),
		Interval: time.Minute}
	if random.IntN(3) == 0 {
		rate.KeepAlive = 2 * time.Minute
	}
	require.NoError(t, l.SetRate(ctx, rate))
	for range random.IntN(4) {
		require.NoError(t, redistest.Err(l.TryAcquire(ctx, 1+random.Int64N(rate.Permits))))
		moment = moment.Add(time.Duration(random.IntN(30_000)) * time.Millisecond)
	}

	var done []string
	for range 1 + random.IntN(4) {
		for _, command := range corrupt(random, state.KeysOf("corrupt", c.ID()), moment.UnixMilli()) {
			done = append(done, fmt.Sprintf("%q", command))
			// A command that the key's type rejects corrupts nothing.
			_ = client.Do(ctx, client.B().Arbitrary(command...).Build()).Error()
		}
	}
	story := fmt.Sprintf("round %d: %+v at %d, then %s", round, rate, moment.UnixMilli(), strings.Join(done, ", "))

	config, err := l.Config(ctx)
	r.book(t, story, "Config", err)
	if err != nil {
		_, other := l.AvailablePermits(ctx)
		require.Error(t, other, "Config failed, so all calls must fail: %s", story)
	}
	// The clock stands still and no permit returns, so all further grants are simultaneous.
	var granted int64
	bound := config.Permits
	counted := err == nil && config.Interval >= 10*time.Second && (config.KeepAlive == 0 ||
		config.KeepAlive >= 10*time.Second)
	for range 8 {
		n := 1 + random.Int64N(max(1, min(25, config.Permits+2)))
		if random.IntN(4) == 0 {
			n = max(1, min(config.Permits, math.MaxUint32)) // the most that a call may take
		}
		call := calls[random.IntN(len(calls))]
		name, ok := fmt.Sprintf("%s(%d)", call, n), false
		var err error
		switch call {
		case "AvailablePermits":
			var free int64
			free, err = l.AvailablePermits(ctx)
			require.GreaterOrEqual(t, free, int64(0), story)
			require.LessOrEqual(t, free, config.Permits, story)
		case "Release":
			if err = l.Release(ctx, n); err == nil {
				bound += n
			}
		case "TryAcquireWithin":
			ok, err = l.TryAcquireWithin(ctx, n, time.Millisecond)
		case "Acquire":
			short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
			err = l.Acquire(short, n)
			cancel()
			ok = err == nil
		case "Take":
			var decision rratelimiter.Decision
			decision, err = l.Take(ctx, n)
			ok = decision.Allowed
			require.GreaterOrEqual(t, decision.Remaining, int64(0), "%s: %s", story, name)
			require.GreaterOrEqual(t, decision.RetryAfter, time.Duration(0), "%s: %s", story, name)
			require.GreaterOrEqual(t, decision.ResetAfter, time.Duration(0), "%s: %s", story, name)
		case "TryAcquire":
			ok, err = l.TryAcquire(ctx, n)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		story += ", " + name
		r.book(t, story, name, err)
		if !ok {
			r.figures.Denials++
			continue
		}
		require.NoError(t, err, story)
		r.figures.Grants++
		granted += n
		require.LessOrEqual(t, n, config.Permits, story)
		if counted {
			require.LessOrEqual(t, granted, bound, "more at once than the rate: %s", story)
			if granted*max(1, r.figures.Rate) > r.figures.Worst*bound {
				r.figures.Worst, r.figures.Rate = granted, bound
			}
		}
	}

	for name, call := range map[string]func() error{
		"TrySetRate": func() error { _, err := l.TrySetRate(ctx, rate); return err },
		"UpdateRate": func() error { _, err := l.UpdateRate(ctx, rate, rratelimiter.KeepState()); return err },
		"Exists":     func() error { _, err := l.Exists(ctx); return err },
		"Expire":     func() error { _, err := l.Expire(ctx, time.Hour); return err },
		"TTL":        func() error { _, err := l.RemainTimeToLive(ctx); return err },
		"ExpireTime": func() error { _, err := l.ExpireTime(ctx); return err },
		"Size":       func() error { _, err := l.SizeInMemory(ctx); return err },
		"Touch":      func() error { _, err := l.Touch(ctx); return err },
		"Copy":       func() error { _, err := l.Copy(ctx, "{corrupt}copy", rratelimiter.Replace()); return err },
	} {
		r.book(t, story, name, call())
	}

	// SetRate repairs everything except a configuration of another type. Delete repairs that, too.
	err = l.SetRate(ctx, rate)
	r.book(t, story, "SetRate", err)
	if err != nil {
		require.NoError(t, redistest.Err(l.Delete(ctx)), story)
		require.NoError(t, l.SetRate(ctx, rate), story)
	}
	ok, err := l.TryAcquire(ctx, rate.Permits)
	require.NoError(t, err, story)
	require.True(t, ok, "repaired: %s", story)
}

// book counts a result, and requires that an error is a documented one.
func (r *run) book(t *testing.T, story, call string, err error) {
	t.Helper()
	var state *rratelimiter.StateError
	switch {
	case err == nil:
	case errors.As(err, &state):
		require.NotEmpty(t, state.Key, story)
		r.figures.Errors["state"]++
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		r.figures.Errors["not initialized"]++
	case r.lacksCopy && call == "Copy" && errors.Is(err, rratelimiter.ErrUnsupported):
		r.figures.Errors["unsupported"]++
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		r.figures.Errors["above the rate"]++
	default:
		require.NoError(t, err, "%s: %s", call, story)
	}
}

// texts replace numbers. Some are numbers, but not all of these are valid for a limiter.
var texts = []string{
	"", "0", "-0", "00", "1", "2", "5", "10", "-1", "-5", "-1000", "007", "-007", "00060000", "+5", " 5", "5 ", "5\n",
	"5\x00", "1e3", "1.5", "-1.5", "1e+17", "nan", "-nan", "inf", "-inf", "0x10", "true", "abc", "\x00", "\xff\xfe",
	"9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807",
	"9223372036854775808", "-9223372036854775808", "99999999999999999999999", "-99999999999999999999999",
	"999999999999999", "1000000000000000", "60000", strings.Repeat("9", 400), "-" + strings.Repeat("9", 400), "ERR",
	"-ERR wrong",
}

// score returns a score of a member, often around a time in Unix milliseconds.
func score(random *rand.Rand, moment int64) string {
	others := []string{"-inf", "+inf", "0", "-0", "-1", "1e300", "-1e300", "1e-300", "9007199254740993",
		"-9223372036854775808"}
	if random.IntN(2) == 0 {
		return others[random.IntN(len(others))]
	}
	offsets := []float64{0, 0.5, -1, -30_000, -60_000, -60_001, 30_000, 1e12}
	return strconv.FormatFloat(float64(moment)+offsets[random.IntN(len(offsets))], 'f', -1, 64)
}

// member returns a member of a permits set: valid, cut, or any bytes.
func member(random *rand.Rand) string {
	bytes := make([]byte, 1+16+4)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	switch random.IntN(4) {
	case 0:
		return string(bytes[:random.IntN(len(bytes)+1)])
	case 1:
		return string(bytes)
	}
	bytes[0] = 16
	copy(bytes[17:], []byte{byte(random.IntN(12)), 0, 0, 0})
	return string(bytes)
}

// corrupt returns the commands of one corruption of a limiter, at a time in Unix milliseconds.
func corrupt(random *rand.Rand, all state.Keys, moment int64) [][]string {
	at := random.IntN(len(all))
	key, text := all[at], texts[random.IntN(len(texts))]
	del := []string{"DEL", key}
	// In half of the cases the key keeps its type and has a wrong content.
	if random.IntN(2) == 0 {
		switch at {
		case 0:
			field := []string{"rate", "interval", "type", "keepAliveTime"}[random.IntN(4)]
			if random.IntN(4) == 0 {
				return [][]string{{"HDEL", key, field}}
			}
			return [][]string{{"HSET", key, field, text}}
		case 1, 2:
			return [][]string{{"SET", key, text, "KEEPTTL"}}
		default:
			var commands [][]string
			for range 1 + random.IntN(4) {
				commands = append(commands, []string{"ZADD", key, score(random, moment), member(random)})
			}
			return commands
		}
	}
	switch random.IntN(9) {
	case 0, 1:
		return [][]string{del}
	case 2:
		return [][]string{del, {"SET", key, text}}
	case 3:
		return [][]string{del, {"HSET", key, "rate", text}}
	case 4:
		return [][]string{del, {"LPUSH", key, text}}
	case 5:
		return [][]string{del, {"SADD", key, text}}
	case 6:
		return [][]string{del, {"ZADD", key, "1", member(random)}}
	case 7:
		// Longer than the calls that follow take: an expiry between two of them would be a second
		// corruption.
		return [][]string{{"PEXPIRE", key, fmt.Sprint(60_000 + random.IntN(1e9))}}
	default:
		return [][]string{{"PERSIST", key}}
	}
}
