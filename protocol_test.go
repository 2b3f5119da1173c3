package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestCluster_NodesDisagree_CallsTryTenTimesASecond, with a caller and without.
func TestCluster_NodesDisagree_CallsTryTenTimesASecond(t *testing.T) {
	t.Parallel()
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		l := New(c.Conn, WithPrefetch(time.Second)).Limiter("limiter")
		require.NoError(c, l.SetRate(c.Context(), Rate{Permits: 1000, Interval: time.Hour}))
		for range 100 { // some permits are prefetched
			require.NoError(c, l.Acquire(c.Context(), 1))
			time.Sleep(time.Millisecond)
		}
		check := func(name string, d time.Duration, commands int) {
			rejected := c.Rejected()
			for _, node := range []string{redistest.NodeA, redistest.NodeB} {
				assert.InDelta(c, 10*d.Seconds(), rejected[node]/commands, 3*d.Seconds(), "%s, to node %s", name, node)
			}
		}
		c.Disagree("MOVED", "MOVED")
		time.Sleep(2 * time.Minute) // the prefetch ends, and is returned for a minute
		check("prefetch", time.Minute, 1)
		for name, call := range everyCall(l) {
			if strings.HasSuffix(name, "Within") || name == "Copy" { // which end sooner
				continue
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			require.ErrorIs(c, call(ctx), context.DeadlineExceeded, name)
			cancel()
			time.Sleep(time.Second) // what the call began ends
			commands := 1
			if name == "SizeInMemory" {
				commands = len(l.protocol.keys) // in a pipeline
			}
			check(name, 5*time.Second, commands)
		}
	})
}

// withMode is a client that reports a mode.
type withMode struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c withMode) Mode() rueidis.ClientMode { return c.mode }

func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "a", "api:login", "{tenant7}:second", "a}b", "a{b", "{}a", "a{}{b}", "{a}{b}",
		"{{a}}", "}{", "\x00", "\xff{\xfe}", "日本{語}"} {
		f.Add(name, "api:login")
		f.Add(name, "{tenant7}:minute")
	}
	id := uuid.MustParse("0198f1a2-7c3d-7e4f-8a5b-6c7d8e9fa0b1")
	// A client without a server panics on any call.
	f.Fuzz(func(t *testing.T, name, other string) {
		single := New(withMode{mode: rueidis.ClientModeStandalone}, WithClientID(id))
		cluster := New(withMode{mode: rueidis.ClientModeCluster}, WithClientID(id))
		l := single.Limiter(name)
		require.Equal(t, name, l.Name())
		if name == "" {
			require.ErrorIs(t, l.err, ErrInvalidName)
			require.ErrorIs(t, cluster.Limiter(name).check(t.Context()), ErrInvalidName)
			return
		}
		require.NoError(t, l.err)

		prefix := "{" + name + "}"
		if strings.ContainsRune(name, '{') {
			prefix = name
		}
		want := limiterKeys{name, prefix + ":value", prefix + ":permits", prefix + ":value:" + id.String(),
			prefix + ":permits:" + id.String()}
		require.Equal(t, want, l.protocol.keys)

		slots := make([]uint16, len(want))
		for i, key := range want {
			slots[i] = redisx.Slot(key)
		}
		err := cluster.Limiter(name).check(t.Context())
		if slices.Max(slots) == slices.Min(slots) {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrCrossSlot)
			require.ErrorContains(t, err, fmt.Sprintf("slot %d", slots[0]))
			require.True(t, strings.ContainsAny(name, "{}"), "a name without braces has one slot")
		}

		if other == "" || err != nil || cluster.Limiter(other).check(t.Context()) != nil || redisx.Slot(other) == slots[0] {
			return
		}
		require.ErrorIs(t, cluster.Limiter(name).Rename(t.Context(), other), ErrCrossSlot)
		require.ErrorIs(t, redistest.Err(cluster.Limiter(name).Copy(t.Context(), other, Replace())), ErrCrossSlot)
	})
}

// TestScripts_Overall_NameNoKeysOfAClient: while a slot migrates, a cluster refuses a script that
// names a key which does not exist. So no script names the client's own keys for an OVERALL
// limiter, refunds included.
func TestScripts_Overall_NameNoKeysOfAClient(t *testing.T) {
	for kind, want := range map[RateType]int{Overall: sharedKeys, PerClient: len(limiterKeys{})} {
		runWithRedis(t, kind.String(), func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: kind, Permits: 10, Interval: time.Hour})
			f.RequireGranted(l, 1) // and then the hint exists
			var mu sync.Mutex
			named := make(map[int]int)
			f.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
				if names, _ := redistest.ScriptCall(command, args); names != nil {
					mu.Lock()
					named[len(names)]++
					mu.Unlock()
				}
				return false
			})
			f.RequireGranted(l, 1)
			f.RequireAvailable(l, 8)
			require.NoError(t, l.Release(t.Context(), 1))
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx := redistest.Timeout(t, 5*time.Millisecond)
			_, err := l.TryAcquire(ctx, 3) // refunded
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
			f.Latency.Store(0)
			f.RequireAvailable(l, 9)
			assert.Equal(t, map[int]int{want: 6}, named, "keys of each script call")
		})
	}
}

func (f *fixture) rate() int64 {
	f.Helper()
	rate, err := strconv.ParseInt(f.Redis.HGet("limiter", "rate"), 10, 64)
	require.NoError(f, err)
	return rate
}

// setRate sets the rate as another client does that keeps the state.
func (f *fixture) setRate(rate int64) { f.Redis.HSet("limiter", "rate", strconv.FormatInt(rate, 10)) }

// hint returns the hint of a Client that knows the limiter.
func (f *fixture) hint() string {
	return f.Redis.HGet("limiter", "rate") + " " + f.Redis.HGet("limiter", "interval")
}

// run runs a script as it is.
func (f *fixture) run(script *redisx.Script, l *Limiter, args ...string) (rueidis.RedisMessage, error) {
	run := &engine.Run{Call: redisx.Call{Script: script, Keys: l.protocol.keys[:], Args: args}}
	return l.protocol.client.engine.Eval(f.Context(), &l.protocol, run, nil, nil)
}

func (f *fixture) nowText() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// texts is a reply of a script as text, its parts with a space between them.
func texts(t require.TestingT, reply rueidis.RedisMessage, err error) string {
	require.NoError(t, err)
	parts, err := reply.ToAny()
	require.NoError(t, err)
	return strings.Trim(fmt.Sprint(parts), "[]")
}

// member is a member of a grant: one letter 16 times, and the permits.
func member(letter string, permits int64) string {
	return memberOf("\x10"+strings.Repeat(letter, 16), permits)
}

// granted takes permits under a member of that letter.
func (f *fixture) granted(l *Limiter, letter string, permits int64) {
	f.Helper()
	reply, err := f.run(acquireScript, l, f.nowText(), member(letter, permits), f.hint(), "", fmt.Sprint(permits))
	require.NoError(f, err)
	left, err := reply.AsInt64()
	require.NoError(f, err)
	require.GreaterOrEqual(f, left, int64(0))
}

// fill grants permits so many times, a millisecond apart: the first time by a call, then in its place,
// since calls take long. The sizes take turns.
func (f *fixture) fill(l *Limiter, grants int, sizes ...int64) {
	f.Helper()
	f.RequireGranted(l, sizes[0])
	value, permits := valueKey, permitsKey
	if f.Redis.HGet(l.Name(), "type") == "1" {
		value, permits = clientValueKey, clientPermitsKey
	}
	for i := 1; i < grants; i++ {
		time.Sleep(time.Millisecond)
		synctest.Wait() // a count of the grants must not come between
		n, now := sizes[i%len(sizes)], float64(time.Now().UnixMilli())
		f.RequireNoError(f.Redis.ZAdd(l.protocol.keys[permits], now, l.protocol.client.member(n, false)))
		f.RequireNoError(f.Redis.Incr(l.protocol.keys[value], -int(n)))
	}
	time.Sleep(time.Millisecond)
}

// grants returns the permits of all members of the overall set, by their letters.
func (f *fixture) grants() map[string]int64 {
	all := make(map[string]int64)
	for _, m := range f.members() {
		permits, _ := inside.PermitsOf(m)
		all[m[1:2]] += permits
	}
	return all
}

// members returns the members of the overall set.
func (f *fixture) members() []string {
	if !f.Redis.Exists("{limiter}:permits") {
		return nil
	}
	members, err := f.Redis.ZMembers("{limiter}:permits")
	require.NoError(f, err)
	return members
}

// sum returns the permits in the set.
func (f *fixture) sum() (sum int64) {
	for _, permits := range f.grants() {
		sum += permits
	}
	return sum
}

// ttls returns the TTLs of all keys, by the end of their names; 0 is none.
func (f *fixture) ttls() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, key := range f.Redis.Keys() {
		name := strings.TrimPrefix(key, "{limiter}:")
		if before, _, own := strings.Cut(name, ":"); own {
			name = "own " + before
		}
		all[name] = f.Redis.TTL(key)
	}
	return all
}

// prefetched grants permits as a prefetch that ends after d, with the prefetch ID of a Client.
func (f *fixture) prefetched(c *Client, permits int64, d time.Duration) (member string) {
	f.Helper()
	member = c.member(permits, true)
	f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(d).UnixMilli()), member))
	f.RequireNoError(f.Redis.Incr("{limiter}:value", -int(permits)))
	return member
}
