package limit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/luanames"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// scriptsOf returns the scripts of a limiter, by call.
func scriptsOf(l *Limiter) map[call]string {
	all := make(map[call]string)
	for c := range ownArguments {
		if c == chargeCall && has(l.protocol.members, "function") ||
			c == pauseCall && !has(l.protocol.members, "pause") {
			continue
		}
		all[c] = scriptText(c, l.protocol.members)
	}
	return all
}

// limitersToAssemble are a limiter of each policy, and some of several.
func limitersToAssemble(f *clocked) map[string]*Limiter {
	shared := f.client.Limiter("shared")
	all := map[string]*Limiter{
		"redisson":          Join(shared),
		"redisson+redisson": Join(shared, f.client.Limiter("other")),
		"fixedwindow+redisson+tokenbucket": Join(New(f.client, "a", models[0].ten), shared,
			New(f.client, "b", TokenBucket{Capacity: 5, Refill: 1, Interval: time.Millisecond})),
		"fixedwindow+pause":   New(f.client, "name", models[0].ten, Pause{time.Hour}),
		"redisson+pause":      Join(shared, New(f.client, "gate", Pause{time.Hour})),
		"fixedwindow+penalty": New(f.client, "name", models[0].ten, Penalty{1, time.Minute, time.Hour, false}),
		"smooth+penalty+fixedwindow": Join(New(f.client, "a", tenSmooth, Penalty{1, time.Minute, time.Hour, false}),
			New(f.client, "b", models[0].ten)),
	}
	for _, p := range everyPolicy {
		l := New(f.client, "name", p)
		require.NoError(f, l.err)
		all[l.protocol.members[0].described.Lua] = l
		two := New(f.client, "name", p, FixedWindow{Permits: 9, Interval: 7 * time.Millisecond})
		require.NoError(f, two.err)
		all[l.protocol.members[0].described.Lua+"+fixedwindow"] = two
	}
	return all
}

// markParts marks the parts of scripts until the end of a test.
func markParts(t *testing.T) *luanames.Origins {
	origins, plainIncluded, plainSections := new(luanames.Origins), includedParts, sections
	t.Cleanup(func() { includedParts, sections = plainIncluded, plainSections })
	own := redisx.ReadParts(luaFiles, "scripts/include")
	includedParts = origins.Mark(includedParts, func(part string) string {
		if _, ok := own[part]; ok {
			return "limit/scripts/include/" + part + ".lua"
		}
		return "internal/include/" + part + ".lua"
	})
	includedParts["head"] = plainIncluded["head"] // its lines are declared one by one
	sections = make(map[string]redisx.Parts)
	for kind, parts := range plainSections {
		sections[kind] = origins.Mark(parts, func(part string) string { return fileOf(kind, part) + ", " + part })
	}
	return origins
}

// fileOf returns the file of a section of a kind of policies.
func fileOf(kind, section string) string {
	source, _ := luaFiles.ReadFile(kind + ".lua")
	if _, own := redisx.ParseParts(string(source))[section]; !own {
		_, after, _ := strings.Cut(string(source), "\n--@from ")
		base, _, _ := strings.Cut(after, "\n")
		return fileOf(base, section)
	}
	return "limit/" + kind + ".lua"
}

// TestScripts_Assembled_AreGolden: testdata/scripts shows what Redis runs, and from which file. Write it with -update.
func TestScripts_Assembled_AreGolden(t *testing.T) {
	limiters, plain := limitersToAssemble(newClocked(t)), make(map[string]map[call]string)
	for name, l := range limiters {
		several := []string{"tokenbucket+fixedwindow", "fixedwindow+redisson+tokenbucket", "fixedwindow+pause",
			"fixedwindow+penalty"}
		if slices.Contains(several, name) || !strings.Contains(name, "+") && name != "redisson" {
			plain[name] = scriptsOf(l) // these scripts of several policies are enough to read
		}
	}
	origins := markParts(t)
	for name, plain := range plain {
		var text strings.Builder
		scripts := scriptsOf(limiters[name])
		for _, c := range []call{acquireCall, waitCall, chargeCall, releaseCall, peekCall, returnCall, renewCall, pauseCall,
			drainCall} {
			if scripts[c] != "" && (c != returnCall && c != renewCall || name == "inflight") {
				source := c
				if c == waitCall {
					source = acquireCall
				}
				shown := origins.Show(scripts[c], "limit/scripts/"+string(source)+".lua")
				require.Equal(t, plain[c], redisx.Code(shown), "Redis gets no comments")
				text.WriteString("---- " + string(c) + "\n" + shown + "\n")
			}
		}
		golden.File(t, "testdata/scripts/"+name+".lua", text.String())
	}
}

func TestScripts_Names_AreDeclared(t *testing.T) {
	for name, l := range limitersToAssemble(newClocked(t)) {
		for c, text := range scriptsOf(l) {
			used, _ := luanames.Find(text)
			assert.Empty(t, used, "undeclared names in script %s of %s", c, name)
		}
	}
	head, err := luaFiles.ReadFile("scripts/include/head.lua")
	require.NoError(t, err)
	clock, err := luaFiles.ReadFile("scripts/include/clock.lua")
	require.NoError(t, err)
	common := slices.Concat(luanames.Header(string(head)).Out, luanames.Header(string(clock)).Out, []string{"backdate"})
	for kind := range sections {
		text, err := luaFiles.ReadFile(kind + ".lua")
		require.NoError(t, err)
		for name, declared := range luanames.Declared(string(text)) {
			parts := maps.Clone(includedParts)
			maps.Copy(parts, sections[kind])
			used, sets := luanames.Find(parts.Text(name))
			used = slices.DeleteFunc(used, func(n string) bool { return slices.Contains(common, n) })
			assert.ElementsMatch(t, used, declared.In, "in: of %s in %s.lua", name, kind)
			assert.Subset(t, append(sets, used...), declared.Out, "out: of %s in %s.lua", name, kind)
		}
	}
}

// replies has Redis reply so to every script.
func (f *fixture) replies(reply string) {
	f.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) { peer.WriteRaw(reply) })
}

func TestTake_CallsShareAScript_ResetAfterIsOfTheirOrder(t *testing.T) {
	for _, p := range []struct {
		policy Policy
		model  policymodel.Model
	}{
		{FixedWindow{10, time.Hour, false}, &policymodel.FixedWindow{Permits: 10, Interval: 3600e6}},
		{SlidingWindow{10, time.Second, 0}, &policymodel.SlidingWindow{Permits: 10, Cell: 1e5, Cells: 10}},
		{TokenBucket{10, 3, time.Second}, &policymodel.TokenBucket{Capacity: 10, Refill: 3, Interval: 1e6}},
		{LeakyBucket{10, 3, time.Second}, &policymodel.TokenBucket{Capacity: 10, Refill: 3, Interval: 1e6}},
		{Smooth{Permits: 3, Interval: time.Second, Burst: 2 * time.Second}, policymodel.NewSmooth(3, 2, 0)},
	} {
		f := newClocked(t)
		var asks []engine.Ask
		for _, permits := range []int64{2, 1, 4} {
			asks = append(asks, engine.Ask{Permits: permits, Detail: true})
		}
		for _, r := range f.ask(New(f.client, "name", p.policy), asks...).Requests {
			require.True(t, r.Allowed)
			require.True(t, policymodel.Take(p.model, f.now, r.Permits))
			require.InDelta(t, micros(p.model.Reset(f.now)), r.ResetAfter, float64(time.Microsecond), "%T", p.policy)
		}
	}
}

// TestTake_CallsShareAScript_DeniedAnswerIsOfItsEnd: RetryAfter counts the permits of requests
// behind a denied one, and so does Remaining.
func TestTake_CallsShareAScript_DeniedAnswerIsOfItsEnd(t *testing.T) {
	f, l := clockedLimiter(t, SlidingLog{10, 10 * time.Second})
	f.set(begin - begin%1000)
	f.take(l, 2)
	f.advance(time.Second)
	var asks []engine.Ask
	for _, permits := range []int64{1, 1, 1, 7, 1} {
		asks = append(asks, engine.Ask{Permits: permits, Detail: true, Each: true})
	}
	denied := f.ask(l, asks...).Requests[3]
	want := engine.Decision{Limit: 10, Remaining: 4, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}
	assert.Equal(t, want, denied.Decision)
	assert.Equal(t, []engine.Decision{want}, denied.Parts)
}

// TestTryAcquire_ReplyOfAnotherShape_IsAnError, and no grant.
func TestTryAcquire_ReplyOfAnotherShape_IsAnError(t *testing.T) {
	for name, reply := range map[string]string{
		"texts of 3 policies":         "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
		"a list of one text":          "*1\r\n$1\r\na\r\n",
		"a text and a number":         "*2\r\n$1\r\na\r\n:1\r\n",
		"granted in part, no permits": "*3\r\n:0\r\n$1\r\np\r\n*3\r\n$1\r\nm\r\n:5\r\n:1000\r\n",
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", FixedWindow{10, time.Hour, false})
			f.replies(reply)
			ok, err := l.TryAcquire(t.Context(), 2)
			assert.Error(t, err)
			assert.False(t, ok)
			granted, _, err := l.TakeUpTo(t.Context(), 5)
			assert.Error(t, err)
			assert.Zero(t, granted)
		})
	}
}

// TestPolicies_MostOfAKind_FitEachScript: Lua has a limit for the locals of a script.
func TestPolicies_MostOfAKind_FitEachScript(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(d time.Duration) Policy{
		"FixedWindow":   func(d time.Duration) Policy { return FixedWindow{10, d, false} },
		"aligned":       func(d time.Duration) Policy { return FixedWindow{10, d, true} },
		"Calendar":      func(d time.Duration) Policy { return Calendar{10, Year, time.FixedZone(d.String(), 0)} },
		"SlidingWindow": func(d time.Duration) Policy { return SlidingWindow{10, d, 0} },
		"SlidingLog":    func(d time.Duration) Policy { return SlidingLog{10, d} },
		"TokenBucket":   func(d time.Duration) Policy { return TokenBucket{10, 7, d} },
		"LeakyBucket":   func(d time.Duration) Policy { return LeakyBucket{10, 7, d} },
		"Smooth":        func(d time.Duration) Policy { return Smooth{Permits: 7, Interval: d} },
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			var policies []Policy
			for i := range policy.MaxJoined {
				policies = append(policies, of(time.Duration(i+1)*time.Hour))
			}
			l := New(f.client, "name", policies...)
			require.NoError(t, l.Acquire(t.Context(), 1))
			assert.Len(t, redistest.Result(t, l.TakeEach, 1), policy.MaxJoined)
			assert.Len(t, redistest.Peek(t, l), policy.MaxJoined)
			drainTo(t, l, 0)
			require.NoError(t, l.Release(t.Context(), 1))
			require.NoError(t, redistest.Err(l.Charge(t.Context(), 1)))
			require.NoError(t, l.Reset(t.Context()))
			var taken Taken
			d, err := taken.Take(t.Context(), 1, l)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.NoError(t, taken.Settle(t.Context()))
		})
	}
}
