package rratelimiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/include"
	"github.com/rratelimiter/rratelimiter/internal/luanames"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestScripts_Assembled_AreGolden: testdata/scripts shows what Redis runs, and from which file. Write it with -update.
func TestScripts_Assembled_AreGolden(t *testing.T) {
	var origins luanames.Origins
	parts := origins.Mark(include.Parts, func(part string) string { return "internal/include/" + part + ".lua" })
	for name, marked := range assemble(parts) {
		source := "scripts/" + name + ".lua"
		if name == "acquire" || name == "wait" {
			source = "script.lua"
		}
		shown := origins.Show(marked, source)
		require.Equal(t, scriptTexts[name], redisx.Code(shown), "Redis gets no comments")
		golden.File(t, "testdata/scripts/"+name+".lua", shown)
	}
}

func TestScripts_Names_AreDeclared(t *testing.T) {
	for name, text := range scriptTexts {
		used, _ := luanames.Find(text)
		assert.Empty(t, used, "undeclared names in script %s", name)
	}
}

// TestScripts_Include_DeclaresItsNames: the comment of an include says what it needs and sets, and
// what it needs is set before it.
func TestScripts_Include_DeclaresItsNames(t *testing.T) {
	read := func(name string) string {
		text, err := include.Files.ReadFile(name + ".lua")
		require.NoError(t, err)
		return string(text)
	}
	common := slices.Concat(luanames.Header(read("names")).Out, luanames.Header(read("numbers")).Out)
	for name := range include.Parts {
		used, sets := luanames.Find(include.Parts.Text(name))
		used = slices.DeleteFunc(used, func(n string) bool { return slices.Contains(common, n) })
		header := luanames.Header(read(name))
		assert.ElementsMatch(t, used, header.In, "Needs: of %s", name)
		assert.Subset(t, append(append(sets, used...), common...), header.Out, "Sets: of %s", name)
	}
}

// ask runs the acquire script for requests. It requires the right now in a long reply, and leaves
// it out of the result.
func (f *fixture) ask(l *Limiter, flags, runs string) string {
	var total int64
	for run := range strings.FieldsSeq(runs) {
		var permits, times int64
		_, _ = fmt.Sscanf(strings.TrimPrefix(run, "~"), "%d*%d", &permits, &times)
		total += permits * times
	}
	member := l.protocol.client.member(total, false)
	reply, err := f.run(acquireScript, l, f.nowText(), member, f.hint(), "", fmt.Sprint(total), "", flags, runs)
	parts := strings.Split(texts(f, reply, err), " ")
	if len(parts) > 1 {
		require.Equal(f, f.nowText(), parts[5])
		if strings.Contains(parts[6], "p") { // the permits of the part
			parts[6] += "=" + parts[7]
			parts = slices.Delete(parts, 7, 8)
		}
		require.Contains(f, []string{"0", "1"}, parts[7])
		require.Equal(f, "0", parts[8])
		parts = slices.Delete(slices.Delete(parts, 7, 9), 5, 6)
	}
	return strings.Join(parts, " ")
}

// TestAcquireScript_Requests_Replies: {0, left, rate, interval, reset, now, answers, counted,
// keepAlive, wait, permits, ...}, here without now, counted and keepAlive.
func TestAcquireScript_Requests_Replies(t *testing.T) {
	for _, test := range []struct {
		name, flags, runs, want string
		took                    []int64 // before, a second apart
	}{
		{"granted alone", "", "3*1", "7", nil},
		{"denied alone", "", "3*1", "-1", []int64{8}},
		{"all the rate", "", "10*1", "0", nil},
		{"twice all the rate", "", "10*2", "0 0 10 60000 0 gn", nil},
		{"twice all the rate, and nothing is free", "", "10*2", "-1", []int64{1}},
		{"above the rate", "", "11*2", "0 0 10 60000 0 xx", nil},
		{"above the rate and not", "", "11*1 10*1", "0 0 10 60000 0 xg", nil},
		{"above the rate, and denied", "", "11*1 10*1", "0 9 10 60000 0 xn", []int64{1}},
		{"mixed", "", "4*1 5*1 2*2 1*1", "0 0 10 60000 0 ggnng", nil},
		{"none overtakes", "o", "4*1 8*1 6*1", "0 6 10 60000 0 gnn", nil},
		{"above the rate delays none", "o", "4*1 11*1 6*1", "0 0 10 60000 0 gxg", nil},
		{"detail", "d", "3*1", "0 7 10 60000 60000 *", nil},
		{"waits for the smallest", "w", "2*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for more", "w", "6*1", "0 1 10 60000 0 n 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits for exactly that", "w", "5*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for two grants", "w", "3*1", "0 1 10 60000 0 n 58000 1 59000 8", []int64{1, 8}},
		{"waits for the largest", "w", "6*1 2*1", "0 1 10 60000 0 nn 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits of the line are all", "ow", "2*1", "0 1 10 60000 0 n 57000 4 58000 3 59000 2", []int64{4, 3, 2}},
		{"all waits, out of order", "wa", "2*1 1*1", "0 0 10 60000 0 ng 57000 4 58000 3 59000 2 60000 1", []int64{4, 3, 2}},
		{"waits after a grant", "ow", "1*1 9*1", "0 0 10 60000 0 gn 57000 4 58000 3 59000 2 60000 1", []int64{4, 3, 2}},
		{"up to fewer than are free", "dw", "~3*2", "0 4 10 60000 60000 *", nil},
		{"up to more than are free", "dw", "~6*2", "0 0 10 60000 60000 gp=4", nil},
		{"up to more than the rate", "dw", "~99*1", "0 0 10 60000 60000 p=10", nil},
		{"up to, and nothing is free", "w", "~99*2", "0 0 10 60000 0 nn 59000 10", []int64{10}},
		{"up to, waits for one permit", "w", "~9*1", "0 0 10 60000 0 n 58000 4", []int64{4, 6}},
		{"up to, and none overtakes", "o", "4*1 8*1 ~6*1", "0 6 10 60000 0 gnn", nil},
		{"up to, between others", "", "4*1 ~2*1 5*1 ~9*2 1*1", "0 0 10 60000 0 ggnpnn=4", nil},
		{"up to, behind one above the rate", "", "11*1 ~11*1", "0 0 10 60000 0 xp=10", nil},
		{"waits, where the grant is the first", "w", "5*1 6*1", "0 5 10 60000 0 gn 60000 5", nil},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Minute})
			for _, n := range test.took {
				f.RequireGranted(l, n)
				time.Sleep(time.Second)
			}
			assert.Equal(t, test.want, f.ask(l, test.flags, test.runs), test.name)
		})
	}
}

// TestAcquireScript_Prefetch_Replies: the prefetched permits and the end of the prefetch.
func TestAcquireScript_Prefetch_Replies(t *testing.T) {
	const most = 1<<32 - 1
	for name, test := range map[string]struct {
		rate                  Rate // 1000 a second unless it is set
		expires               time.Duration
		keepAlive             int
		permits, wanted       int64
		prefetched, span, all int64 // all: permits of the grant
	}{
		"as many as wanted":    {permits: 10, wanted: 400, prefetched: 400, span: 10, all: 410},
		"half of what is free": {permits: 11, wanted: 900, prefetched: 494, span: 10, all: 505},
		"none of the last 125": {permits: 860, wanted: 900, prefetched: 15, span: 10, all: 875},
		"nothing is left":      {permits: 875, wanted: 900, all: 875},
		"not granted":          {permits: 1001, wanted: 900},
		"for no caller":        {wanted: 100, prefetched: 100, span: 10, all: 100},
		"what a member holds": {rate: Rate{Permits: 1 << 50, Interval: time.Second},
			permits: 7, wanted: 1 << 40, prefetched: most - 7, span: 10, all: most},
		"a short interval": {rate: Rate{Permits: 1000, Interval: 100 * time.Millisecond},
			permits: 1, wanted: 100, prefetched: 100, span: 6, all: 101},
		"a shorter one":   {rate: Rate{Permits: 1000, Interval: 15 * time.Millisecond}, permits: 1, wanted: 100, all: 1},
		"it still exists": {keepAlive: 1010, permits: 1, wanted: 100, prefetched: 100, span: 10, all: 101},
		"it may be gone":  {keepAlive: 1009, permits: 1, wanted: 100, all: 1},
		"it expires later": {expires: 1010 * time.Millisecond, permits: 1, wanted: 100, prefetched: 100, span: 10,
			all: 101},
		"it expires by then": {expires: 1009 * time.Millisecond, permits: 1, wanted: 100, all: 1},
		"for each client": {rate: Rate{Type: PerClient, Permits: 1000, Interval: time.Second},
			permits: 1, wanted: 100, prefetched: 100, span: 10, all: 101},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			if test.rate == (Rate{}) {
				test.rate = Rate{Permits: 1000, Interval: time.Second}
			}
			l := f.limiter(test.rate)
			if test.expires > 0 {
				f.RequireNoError(l.Expire(t.Context(), test.expires))
			}
			f.Redis.HSet("limiter", "keepAliveTime", strconv.Itoa(test.keepAlive)) // Java sets a short one too
			want := engine.Prefetch{Permits: test.wanted, Span: 10 * time.Millisecond}
			batch := &engine.Batch{Prefetch: want}
			if test.permits > 0 {
				batch.Requests = []*engine.Request{{Ask: engine.Ask{Permits: test.permits}}}
			}
			now := time.Now()
			l.protocol.hint().setRate(test.rate.Permits, test.rate.Interval.Milliseconds(), false)
			l.protocol.Prepare(batch, now)
			message, err := f.run(acquireScript, l, batch.Args...)
			require.NoError(t, err)
			_, err = l.protocol.Answer(batch, message)
			require.NoError(t, err)
			batch.Prefetch.Refund = nil
			lasts := time.Duration(test.span) * time.Millisecond
			if test.prefetched > 0 {
				want.Granted, want.Lasts, want.Limit = test.prefetched, lasts, test.rate.Permits
				want.Free, want.Reset = test.rate.Permits-test.all, lasts+test.rate.Interval
			}
			assert.Equal(t, want, batch.Prefetch)
			set, value := "{limiter}:permits", "{limiter}:value"
			if test.rate.Type == PerClient {
				set, value = set+":"+l.protocol.client.ID(), value+":"+l.protocol.client.ID()
			}
			grants, _ := f.Redis.SortedSet(set)
			if test.all == 0 {
				assert.Empty(t, grants)
				return
			}
			require.Len(t, grants, 1)
			score := grants[memberOf(grantOf(batch.Args[memberArg]), test.all)]
			assert.InDelta(t, float64(now.Add(lasts).UnixMilli()), score, 0)
			assert.Equal(t, test.rate.Permits-test.all, f.Stored(value))
		})
	}
}

// TestScripts_Page_Is256Grants: for every loop over grants.
func TestScripts_Page_Is256Grants(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10_000, Interval: 10 * time.Second})
		fill := func(n int) {
			f.Redis.FlushAll()
			require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 10_000, Interval: 10 * time.Second}))
			for range n {
				grant := new(Client).member(2, false)
				f.RequireNoError(f.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), grant))
			}
			require.NoError(t, f.Redis.Set("{limiter}:value", strconv.Itoa(10_000-2*n)))
		}
		expire := func(n int) { // as many expire, and one does not
			fill(n)
			time.Sleep(5 * time.Second)
			f.RequireGranted(l, 1)
			time.Sleep(5 * time.Second)
		}
		calls := func(want int64, what func()) {
			t.Helper()
			f.countedNow(l)
			before := f.Scripts.Load()
			what()
			assert.Equal(t, want, f.Scripts.Load()-before, "calls")
		}
		for n, pages := range map[int]int64{255: 1, 256: 1, 257: 2, 512: 2, 513: 3} {
			fill(n)
			assert.Equal(t, 6+2*1, len(strings.Fields(f.ask(l, "w", "10000*1"))), "all of one millisecond")
			f.Redis.Del("{limiter}:value")
			calls(pages, func() { f.RequireGranted(l, 1) })
			require.NoError(t, l.Release(t.Context(), int64(2*n)))
			f.RequireAvailable(l, 9999)

			expire(n)
			calls((int64(n)+256)/256, func() { f.RequireAvailable(l, 9999) })
			calls(1, func() { f.RequireGranted(l, 1) })
			calls(max(1, pages-1), func() { f.RequireGranted(l, 9998) })
			f.RequireDenied(l, 1)

			expire(n)
			f.Redis.Del("{limiter}:value")
			calls(pages, func() { f.RequireGranted(l, 9999) })
			f.RequireDenied(l, 1)

			expire(n)
			calls(pages, func() { f.RequireDenied(l, 10_000) })
			calls(1, func() { f.RequireGranted(l, 9999) })

			fill(n)
			calls(pages, func() { require.NoError(t, l.Release(t.Context(), int64(2*n))) })
			f.RequireAvailable(l, 10_000)
			assert.Empty(t, f.members())
			expire(n)
			require.NoError(t, l.Release(t.Context(), 1))
			f.RequireAvailable(l, 10_000)
			assert.Empty(t, f.members(), "the expired grants are removed")
			f.RequireGranted(l, 7)
			time.Sleep(10 * time.Second)
			calls(1, func() { f.RequireGranted(l, 10_000) }) // all have expired, and none is read one by one
		}
	})
}

// TestScripts_CursorOfAnotherSet_StartsAgain: likewise if the set has fewer grants than the cursor
// counts.
func TestScripts_CursorOfAnotherSet_StartsAgain(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: 10 * time.Second})
		f.fill(l, 300, 1)
		time.Sleep(time.Second)
		f.granted(l, "z", 7)
		first, newest := f.members()[0], member("z", 7)
		f.Redis.Del("{limiter}:value")
		taken := func(cursor string) string {
			reply, err := f.run(availableScript, l, f.nowText(), "", "", "", "", cursor)
			return strings.Join(strings.Fields(texts(t, reply, err))[:2], " ")
		}
		assert.Equal(t, "1 256", taken(""))
		assert.Equal(t, "0 693", taken("256 262 "+newest), "goes on: 262 counted, and 45 to come")
		assert.Equal(t, "1 256", taken("256 262 "+member("y", 7)), "starts again, as another grant is the newest")

		counted := func(cursor string) string {
			reply, err := f.run(acquireScript, l, f.nowText(), member("n", 1000), f.hint(), "", "1000", cursor)
			return texts(t, reply, err)
		}
		assert.Contains(t, counted("400 0 "+newest), "1 256 262", "starts again, as there are no 400")
		assert.Contains(t, counted("256 262 "+member("y", 7)), "1 256 262")
		assert.Equal(t, "-1", counted("256 262 "+newest))

		// With a value, expired grants are counted, the oldest first.
		time.Sleep(9 * time.Second)
		assert.Equal(t, "1 256", taken(""))
		assert.Equal(t, "0 993", taken("256 256 "+first))
		assert.Equal(t, "1 256", taken("256 256 "+newest))
	})
}
