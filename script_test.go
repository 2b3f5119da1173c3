package rratelimiter

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/luanames"
)

var update = flag.Bool("update", false, "write testdata/scripts")

// TestScripts_Assembled_AreGolden: testdata/scripts shows what Redis runs. Write it with -update.
func TestScripts_Assembled_AreGolden(t *testing.T) {
	for name := range scripts {
		file := filepath.Join("testdata", "scripts", name+".lua")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(scriptText(name)), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), scriptText(name), name)
	}
}

func TestScripts_Names_AreDeclared(t *testing.T) {
	for name := range scripts {
		used, _ := luanames.Find(scriptText(name))
		assert.Empty(t, used, "undeclared names in script %s", name)
	}
	declared := luanames.Declared(scriptSource)
	common := declared["names"].Out
	for name := range scriptParts {
		used, sets := luanames.Find(scriptParts.Text(name))
		used = slices.DeleteFunc(used, func(n string) bool { return slices.Contains(common, n) })
		assert.ElementsMatch(t, used, declared[name].In, "in: of part %s", name)
		assert.Subset(t, append(sets, used...), declared[name].Out, "out: of part %s", name)
	}
	for name, parts := range scripts {
		known := slices.Clone(common)
		for _, part := range parts {
			assert.Subset(t, known, declared[part].In, "part %s of script %s reads what no part before it sets", part, name)
			known = append(known, declared[part].Out...)
		}
	}
}

// ask runs the acquire script for requests. It requires the right now in a long reply, and leaves
// it out of the result.
func (b *fixture) ask(l *Limiter, flags, runs string) string {
	var total int64
	for run := range strings.FieldsSeq(runs) {
		var permits, times int64
		_, _ = fmt.Sscanf(strings.TrimPrefix(run, "~"), "%d*%d", &permits, &times)
		total += permits * times
	}
	member := string(l.wire.client.appendMember(nil, total, false))
	reply, err := b.run(acquireScript, l, b.nowText(), member, b.hint(), "", fmt.Sprint(total), "", flags, runs)
	parts := strings.Split(texts(b, reply, err), " ")
	if len(parts) > 1 {
		now, err := strconv.ParseInt(parts[5], 10, 64)
		require.NoError(b, err)
		require.Equal(b, time.Now().UnixMilli(), now)
		require.Contains(b, []string{"", "done"}, parts[7])
		parts = slices.Delete(slices.Delete(parts, 7, 8), 5, 6)
	}
	return strings.Join(parts, " ")
}

// TestAcquireScript_Requests_Replies: {0, left, rate, interval, reset, now, answers, counted, wait,
// permits, ...}, here without now and counted.
func TestAcquireScript_Requests_Replies(t *testing.T) {
	for _, test := range []struct {
		name, flags, runs, want string
		took                    []int64 // before, a second apart
	}{
		{"granted alone", "", "3*1", "7", nil},
		{"granted together", "", "3*2 1*4", "0", nil},
		{"denied alone", "", "3*1", "-1", []int64{8}},
		{"all the rate", "", "10*1", "0", nil},
		{"twice all the rate", "", "10*2", "0 0 10 60000 0 gn", nil},
		{"twice all the rate, and nothing is free", "", "10*2", "-1", []int64{1}},
		{"above the rate", "", "11*2", "0 0 10 60000 0 xx", nil},
		{"above the rate and not", "", "11*1 10*1", "0 0 10 60000 0 xg", nil},
		{"above the rate, and denied", "", "11*1 10*1", "0 9 10 60000 0 xn", []int64{1}},
		{"mixed", "", "4*1 5*1 2*2 1*1", "0 0 10 60000 0 ggnng", nil},
		{"small ones overtake", "", "4*1 8*1 6*1", "0 0 10 60000 0 gng", nil},
		{"none overtakes", "o", "4*1 8*1 6*1", "0 6 10 60000 0 gnn", nil},
		{"above the rate delays none", "o", "4*1 11*1 6*1", "0 0 10 60000 0 gxg", nil},
		{"detail", "d", "3*1", "0 7 10 60000 60000 *", nil},
		{"detail of several", "dw", "3*2", "0 4 10 60000 60000 *", nil},
		{"waits for the smallest", "w", "2*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for more", "w", "6*1", "0 1 10 60000 0 n 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits for exactly that", "w", "5*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for two grants", "w", "3*1", "0 1 10 60000 0 n 58000 1 59000 8", []int64{1, 8}},
		{"waits for the largest", "w", "6*1 2*1", "0 1 10 60000 0 nn 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits for the largest, behind", "w", "2*1 6*1", "0 1 10 60000 0 nn 57000 4 58000 3", []int64{4, 3, 2}},
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
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
			for _, n := range test.took {
				b.Take(l, n)
				pass(second)
			}
			assert.Equal(b, test.want, b.ask(l, test.flags, test.runs), test.name)
		})
	}
}

// TestLeaseScript_Requests_Replies: the leased permits and the end of the lease.
func TestLeaseScript_Requests_Replies(t *testing.T) {
	const most = 1<<32 - 1
	for name, test := range map[string]struct {
		rate              Rate // 1000 a second unless it is set
		expires           time.Duration
		keepAlive         int
		permits, wanted   int64
		leased, span, all int64 // all: permits of the grant
	}{
		"as many as wanted":    {permits: 10, wanted: 400, leased: 400, span: 10, all: 410},
		"half of what is free": {permits: 11, wanted: 900, leased: 494, span: 10, all: 505},
		"none of the last 125": {permits: 860, wanted: 900, leased: 15, span: 10, all: 875},
		"nothing is left":      {permits: 875, wanted: 900, all: 875},
		"not granted":          {permits: 1001, wanted: 900},
		"for no caller":        {wanted: 100, leased: 100, span: 10, all: 100},
		"what a member holds": {rate: Rate{Permits: 1 << 50, Interval: time.Second},
			permits: 7, wanted: 1 << 40, leased: most - 7, span: 10, all: most},
		"a short interval": {rate: Rate{Permits: 1000, Interval: 100 * time.Millisecond},
			permits: 1, wanted: 100, leased: 100, span: 6, all: 101},
		"a shorter one":      {rate: Rate{Permits: 1000, Interval: 15 * time.Millisecond}, permits: 1, wanted: 100, all: 1},
		"it lives":           {keepAlive: 1010, permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
		"it may be gone":     {keepAlive: 1009, permits: 1, wanted: 100, all: 1},
		"it expires later":   {expires: 1010 * time.Millisecond, permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
		"it expires by then": {expires: 1009 * time.Millisecond, permits: 1, wanted: 100, all: 1},
		"for each client": {rate: Rate{Type: PerClient, Permits: 1000, Interval: time.Second},
			permits: 1, wanted: 100, leased: 100, span: 10, all: 101},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				if test.rate == (Rate{}) {
					test.rate = Rate{Permits: 1000, Interval: time.Second}
				}
				l := b.limiter(test.rate)
				if test.expires > 0 {
					_, err := l.Expire(b.Context(), test.expires)
					require.NoError(b, err)
				}
				b.Redis.HSet("limiter", "keepAliveTime", strconv.Itoa(test.keepAlive)) // Java sets a short one too
				runs := " "
				if test.permits > 0 {
					runs = ""
				}
				now := time.Now().UnixMilli()
				member := string(new(Client).appendMember(nil, test.permits, false))
				message, err := l.wire.client.engine.Eval(b.Context(), leaseScript, l.wire.keys[:], []string{
					strconv.FormatInt(now, 10), member, b.hint(), "",
					strconv.FormatInt(test.permits, 10), "", "", runs, "",
					strconv.FormatInt(test.wanted, 10), "10",
				}, nil)
				require.NoError(b, err)
				reply, err := message.ToArray()
				if test.leased > 0 {
					require.NoError(b, err)
					require.Len(b, reply, 7)
					left := test.rate.Permits - test.all
					interval := test.rate.Interval.Milliseconds()
					for i, want := range []int64{
						replyLeased, test.leased, test.span, test.rate.Permits, interval, left, left,
					} {
						got, err := reply[i].AsInt64()
						require.NoError(b, err)
						assert.Equal(b, want, got, "element %d", i+1)
					}
				}
				set, value := "{limiter}:permits", "{limiter}:value"
				if test.rate.Type == PerClient {
					set, value = set+":"+l.wire.client.ID(), value+":"+l.wire.client.ID()
				}
				grants, _ := b.Redis.SortedSet(set)
				if test.all == 0 {
					assert.Empty(b, grants)
					return
				}
				require.Len(b, grants, 1)
				assert.InDelta(b, float64(now+test.span), grants[string(appendUint32([]byte(member[:17]), test.all))], 0)
				stored, err := b.Redis.Get(value)
				require.NoError(b, err)
				assert.Equal(b, strconv.FormatInt(test.rate.Permits-test.all, 10), stored)
			})
		})
	}
}

// TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether: for every byte of a member's permits.
func TestAcquireScript_GrantsOfOneMillisecond_ReturnTogether(t *testing.T) {
	withRedis(t, func(b *fixture) {
		const rate = 1 << 40
		l := b.limiter(Rate{Permits: rate, Interval: time.Minute})
		sum := int64(0)
		for i, n := range []int64{1, 0x100, 0x10000, 0x1000000, 0x01020304, 0xfffffffe} {
			b.granted(l, string(rune('a'+i)), n)
			sum += n
		}
		pass(second)
		b.granted(l, "z", 5)
		want := fmt.Sprintf("0 %d %d 60000 0 n 59000 %d 60000 5", rate-sum-5, int64(rate), sum)
		assert.Equal(b, want, b.ask(l, "w", fmt.Sprint(int64(rate), "*1")))
		b.Redis.Del("{limiter}:value")
		b.Free(l, rate-sum-5)
		b.Take(l, 1)
		b.Free(l, rate-sum-6)
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: rate, Interval: time.Minute}, KeepState()))
		b.Free(l, rate-sum-6)
		require.NoError(b, l.Release(b.Context(), 0x1010101+0x01020304))
		b.Free(l, rate-sum-6+0x1010101+0x01020304)
		pass(59 * second)
		b.Free(l, rate-6)
	})
}

// TestScripts_Page_Is256Grants: for every loop over grants.
func TestScripts_Page_Is256Grants(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		fill := func(n int) {
			b.Redis.FlushAll()
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10_000, Interval: 10 * second}))
			for range n {
				grant := string(new(Client).appendMember(nil, 2, false))
				_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), grant)
				require.NoError(b, err)
			}
			require.NoError(b, b.Redis.Set("{limiter}:value", strconv.Itoa(10_000-2*n)))
		}
		calls := func(want int64, what func()) {
			b.Helper()
			before := b.Scripts.Load()
			what()
			assert.Equal(b, want, b.Scripts.Load()-before, "calls")
		}
		for n, pages := range map[int]int64{255: 1, 256: 1, 257: 2, 512: 2, 513: 3} {
			fill(n)
			assert.Equal(b, 6+2*1, len(strings.Fields(b.ask(l, "w", "10000*1"))), "all of one millisecond")
			b.Redis.Del("{limiter}:value")
			calls(pages, func() { b.Take(l, 1) })
			require.NoError(b, l.Release(b.Context(), int64(2*n)))
			b.Free(l, 9999)

			// As many expire, and one does not.
			fill(n)
			pass(5 * second)
			b.Take(l, 1)
			pass(5 * second)
			calls((int64(n)+256)/256, func() { b.Free(l, 9999) })
			calls(1, func() { b.Take(l, 1) })
			calls(max(1, pages-1), func() { b.Take(l, 9998) })
			b.Full(l, 1)

			fill(n)
			pass(5 * second)
			b.Take(l, 1)
			pass(5 * second)
			calls(pages, func() { b.Full(l, 10_000) })
			calls(1, func() { b.Take(l, 9999) })

			fill(n)
			calls(1, func() { require.NoError(b, l.Release(b.Context(), int64(2*n))) })
			b.Free(l, 10_000)

			fill(n)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1000, Interval: 10 * second}, KeepState()))
			b.Free(l, max(0, 1000-int64(2*n)))
		}
	})
}

// TestScripts_CursorOfAnotherSet_StartsAgain: likewise if the set has fewer grants than the cursor
// counts.
func TestScripts_CursorOfAnotherSet_StartsAgain(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 1000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 1)
		}
		pass(second)
		b.granted(l, "z", 7)
		first := func() string {
			members, err := b.Redis.SortedSet("{limiter}:permits")
			require.NoError(b, err)
			oldest := ""
			for m, score := range members {
				if oldest == "" || score < members[oldest] || score == members[oldest] && m < oldest {
					oldest = m
				}
			}
			return oldest
		}()
		b.Redis.Del("{limiter}:value")
		taken := func(cursor string) string {
			reply, err := b.run(availableScript, l, b.nowText(), "", "", "", "", cursor)
			return strings.Join(strings.Fields(texts(b, reply, err))[:2], " ")
		}
		newest := member("z", 7)
		assert.Equal(b, "1 256", taken(""))
		assert.Equal(b, "0 693", taken("256 262 "+newest), "goes on: 262 counted, and 45 to come")
		assert.Equal(b, "1 256", taken("256 262 "+member("y", 7)), "starts again, as another grant is the newest")

		counted := func(cursor string) string {
			reply, err := b.run(acquireScript, l, b.nowText(), member("n", 1000), "1000 10000", "", "1000", cursor)
			return strings.Fields(texts(b, reply, err))[0] + " " + strings.Join(strings.Fields(texts(b, reply, err))[1:], " ")
		}
		assert.Contains(b, counted("400 0 "+newest), "1 256 262", "starts again, as there are no 400")
		assert.Contains(b, counted("256 262 "+member("y", 7)), "1 256 262")
		assert.Equal(b, "-1 ", counted("256 262 "+newest))

		// With a value, expired grants are counted, the oldest first.
		pass(9 * second)
		assert.Equal(b, "1 256", taken(""))
		assert.Equal(b, "0 993", taken("256 256 "+first))
		assert.Equal(b, "1 256", taken("256 256 "+newest))
	})
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte{}, int64(1))
	f.Add([]byte{1, 2, 3}, int64(100))
	f.Add([]byte{0, 0, 0, 1}, int64(1<<32-1))
	f.Add([]byte("\x08random..\x05\x00\x00\x00"), int64(1<<32))
	f.Add([]byte("\x10random..random..\xff\xff\xff\xff"), int64(1<<53))
	f.Add([]byte("\x00\x00\x80\x3f\x07\x00\x00\x00"), int64(7))
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, found []byte, permits int64) {
		made := new(Client).appendMember([]byte("before"), permits, false)
		require.Equal(t, "before\x10", string(made[:7]))
		require.Len(t, made, 6+1+16+4)
		require.Equal(t, uint32(permits), binary.LittleEndian.Uint32(made[23:]))
		another := new(Client).appendMember([]byte("before"), permits, false)
		require.NotEqual(t, made, another, "two grants never share a member")

		// A member of another release of Redisson, or of another program.
		const rate = 1 << 40
		server.FlushAll()
		now := fuzzEpoch
		l := New(client, WithClock(func() time.Time { return now })).Limiter("m")
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: rate, Interval: time.Second}))
		_, err := server.ZAdd(l.wire.keys[permitsKey], float64(now.UnixMilli()), string(found))
		require.NoError(t, err)

		// The value is lost, so that only the member has the taken permits.
		if len(found) < 4 {
			want := &StateError{Key: l.wire.keys[permitsKey], Field: "member", Value: string(found)}
			var state *StateError
			_, err = l.AvailablePermits(t.Context())
			require.ErrorAs(t, err, &state)
			require.Equal(t, want, state)
			_, err = l.TryAcquire(t.Context(), 1)
			require.ErrorAs(t, err, &state)
			require.Equal(t, want, state)
			require.Equal(t, []string{l.wire.keys[configKey], l.wire.keys[permitsKey]}, server.Keys(), "nothing was written")
		} else {
			taken := int64(binary.LittleEndian.Uint32(found[len(found)-4:]))
			free, err := l.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.Equal(t, rate-taken, free)
			decision, err := l.Take(t.Context(), 1)
			require.NoError(t, err)
			want := Decision{Allowed: true, Limit: rate, Remaining: rate - taken - 1, ResetAfter: time.Second}
			require.Equal(t, want, decision)
		}
		now = now.Add(time.Second)
		free, err := l.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, rate, free, "whatever it was, it has left the window")
		granted, err := l.TryAcquire(t.Context(), maxGrant)
		require.NoError(t, err)
		require.True(t, granted)
	})
}
