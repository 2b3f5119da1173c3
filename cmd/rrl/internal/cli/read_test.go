package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

const client1, client2 = "5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", "a83d4e17-22b0-4f63-8c11-7be09d5f6a02"

// zoo makes one limiter of each sort, some of them broken.
func zoo(s *server) {
	ctx := context.Background()
	lib := rratelimiter.New(s.Client)
	api := lib.Limiter("paid-api")
	require.NoError(s, api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: time.Hour}))
	for range 300 { // more than a page
		require.NoError(s, redistest.Err(api.TryAcquire(ctx, 1)))
	}
	for _, id := range []string{client1, client2} {
		tenants := rratelimiter.New(s.Client, rratelimiter.WithClientID(uuid.MustParse(id))).Limiter("{t}:tenants")
		_, err := tenants.TrySetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20, Interval: time.Hour,
			KeepAlive: 2 * time.Hour})
		require.NoError(s, err)
		require.NoError(s, redistest.Err(tenants.TryAcquire(ctx, 7)))
	}
	for _, p := range everyPolicy {
		require.NoError(s, redistest.Err(limit.New(lib, "user 7", p).TryAcquire(ctx, 3)))
	}
	s.run(
		"HSET corrupt rate many interval 1000 type 0", "SET {corrupt}:value 1",
		"HSET broken rate 10 interval 60000 type 0", "SET {broken}:value 1", "ZADD {broken}:permits 5 xyz 6 xx",
		"HSET lost rate 10 interval 60000 type 0", "SET {lost}:value 4 EX 1000",
		"SET {gone}:value:"+client1+" 5",
		"HSET product rate 10 interval 60000 type 0 price 7", "HSET other rate 0.5 interval daily type 1",
		"SET plain text", "LPUSH list 1", "SET {weird}:window:1000 text", "SADD {weird}:value 1",
	)
}

var everyPolicy = []limit.Policy{
	limit.FixedWindow{Permits: 5, Interval: time.Hour}, limit.FixedWindow{Permits: 5, Interval: time.Hour, Aligned: true},
	limit.Calendar{Permits: 5, Unit: limit.Month}, limit.SlidingWindow{Permits: 5, Interval: time.Hour},
	limit.SlidingLog{Permits: 5, Interval: time.Hour}, limit.TokenBucket{Capacity: 5, Refill: 1, Interval: time.Hour},
	limit.LeakyBucket{Capacity: 5, Leak: 1, Interval: time.Hour},
	limit.Smooth{Permits: 5, Interval: time.Hour}, limit.Smooth{Permits: 5, Interval: time.Hour, WarmUp: time.Hour},
}

// readings are commands that only read.
var readings = [][]string{
	{"ls"}, {"ls", "-o", "json"}, {"ls", "p*"}, {"show", "paid-api"}, {"show", "{t}:tenants", "-o", "json"},
	{"show", "user 7", "--policy", "fixed_window:5/1h"}, {"show", "corrupt"}, {"show", "broken"},
	{"watch", "paid-api", "{t}:tenants", "user 7", "missing", "corrupt", "--count", "3", "--every", "50ms"},
	{"watch", "paid-api", "-o", "json", "--count", "1"}, {"audit"}, {"audit", "-o", "json"},
}

// TestReading_ReadRight_IsEnough: a user who may only read keys sees the same output, and none of
// the commands for it is denied.
func TestReading_ReadRight_IsEnough(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	s.run("ACL SETUSER viewer on >secret ~* +@read")
	for _, args := range readings {
		looked(t, args, tool(append(args, "--redis", "redis://viewer:secret@"+s.addr)...))
	}
	denied, err := s.words("ACL", "LOG").ToArray()
	require.NoError(t, err)
	for _, one := range denied {
		fields, err := one.AsMap()
		require.NoError(t, err)
		command := fields["object"]
		require.Contains(t, command.String(), `"ping"`, "only ping reads no keys")
	}
	require.Equal(t, firstWords(s.on("ls")), firstWords(tool("ls", "--redis", "redis://viewer:secret@"+s.addr).out))
	fails(t, []string{"try", "paid-api", "--redis", "redis://viewer:secret@" + s.addr}, "denies this user")
}

// firstWords is the first word of each line: the rest of a list changes with time.
func firstWords(text string) (words []string) {
	for line := range strings.Lines(text) {
		words = append(words, strings.Fields(line)[0])
	}
	return words
}

func TestList_OtherHashes_AreNotListed(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	list := s.on("ls")
	for _, name := range []string{"paid-api", "{t}:tenants", `"user 7"`, "corrupt", "broken", "lost"} {
		require.Contains(t, list, "\n"+name+" ")
	}
	for _, name := range []string{"product", "other", "weird", "plain", "list", "gone"} {
		require.NotContains(t, list, name)
	}
	require.Contains(t, s.on("ls", "--max", "2"), "of others: use a PATTERN or raise --max")
	require.NotContains(t, s.on("ls", "paid-*"), "tenants")
	require.Contains(t, s.on("ls", "paid-*"), "paid-api")
}

// TestRead_LargeKeys_AreSkipped: the bytes that the server sends show that keys which are larger
// than a limiter's are not read.
func TestRead_LargeKeys_AreSkipped(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 0", "SETRANGE {a}:value 30000000 1",
		"SETRANGE {o}:value:"+client1+" 30000000 1", "SETRANGE {u}:window:1000 30000000 1")
	s.words("EVAL", "for i = 1, 300000 do redis.call('HSET', '{u}:sliding:1000:20', i, i) end", "0")
	s.words("EVAL", "local text = string.rep('1', 1000000) for i = 1, 30 do redis.call('RPUSH', '{u}:log:1000', text) end", "0")
	s.words("EVAL", "redis.call('SET', '{v}:sliding:1000:10', 'epochs 1 1 1' .. string.rep(' 1:1', 3000000))", "0")
	sent := func() int {
		found := regexp.MustCompile(`total_net_output_bytes:(\d+)`).FindStringSubmatch(s.text("INFO", "stats"))
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return n
	}
	for _, args := range [][]string{
		{"ls"}, {"show", "a", "--all"}, {"show", "o"}, {"show", "u"}, {"show", "v"},
		{"watch", "a", "u", "--count", "2", "--every", "50ms"}, {"audit"}, {"audit", "--fix"},
	} {
		before := sent()
		r := tool(append(args, "--redis", s.url())...)
		looked(t, args, r)
		require.Less(t, sent()-before, 200_000, args)
	}
	require.Contains(t, s.corrupt("u"), "which package limit does not write")
	require.Contains(t, s.corrupt("a"), "is not a number")
}

// TestRead_LargeValidState_IsNoFinding: a log with many entries, a window with many cells, and a
// long name.
func TestRead_LargeValidState_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	lib := rratelimiter.New(s.Client)
	ctx := context.Background()
	log := limit.New(lib, "u", limit.SlidingLog{Permits: 5000, Interval: time.Hour})
	for range 600 {
		require.NoError(t, redistest.Err(log.TryAcquire(ctx, 1)))
	}
	long := strings.Repeat("n", 1<<16)
	for _, p := range append(everyPolicy, limit.SlidingWindow{Permits: 5, Interval: time.Hour, Cells: 1000}) {
		for _, name := range []string{"u", long} {
			require.NoError(t, redistest.Err(limit.New(lib, name, p).TryAcquire(ctx, 2)))
		}
	}
	require.NotContains(t, s.on("show", "u"), "does not write")
	require.NotContains(t, s.on("show", long), "does not write")
	require.Contains(t, s.on("audit"), "0 problems")
}

// TestShow_IntervalZero_AllPermitsReturn: the libraries accept such an interval.
func TestShow_IntervalZero_AllPermitsReturn(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 0 type 0")
	for range 2 {
		s.on("try", "a", "-n", "10")
		require.Contains(t, s.on("show", "a"), "wrong       nothing")
		require.Contains(t, s.on("audit"), "0 problems")
		require.Contains(t, s.on("watch", "a", "--count", "1"), "taken=0")
	}
}

// TestWatch_RedisRestarts_Continues: also if a limiter is deleted and created again, or if Redis
// does not answer.
func TestWatch_RedisRestarts_Continues(t *testing.T) {
	s := startRedis(t)
	s.on("set", "api", "10/1h")
	s.on("try", "api", "-n", "4")
	s.on("try", "u", "--policy", "fixed_window:5/1h")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, failed redistest.Log
	ended := make(chan int, 1)
	go func() {
		ended <- runTool(ctx, []string{"watch", "api", "u", "--every", "50ms", "--timeout", "1s", "--redis", s.url()},
			&out, &failed)
	}()
	out.Await(t, ` api "OVERALL 10/1h" taken=4`)
	s.run("DEL api")
	out.Await(t, ` api "no limiter"`)
	s.on("set", "api", "20/1h")
	out.Await(t, ` api "OVERALL 20/1h" taken=4`)
	_ = s.Do(context.Background(), s.B().Arbitrary("DEBUG", "RESTART").Build()).Error() // which ends the connection
	out.Await(t, ` wrong="`)
	out.Await(t, ` api "no limiter"`) // nothing of it was saved
	require.Eventually(t, func() bool { return tool("set", "api", "30/1h", "--redis", s.url()).code == exitDone },
		30*time.Second, 10*time.Millisecond)
	out.Await(t, ` api "OVERALL 30/1h" taken=0`)
	s.run("CLIENT PAUSE 5000 ALL") // longer than a look waits
	out.Await(t, ` api "OVERALL 30/1h" limit=30 wrong="`)
	out.Await(t, "does not answer in time")
	out.Await(t, ` api "OVERALL 30/1h" taken=0`)
	cancel()
	require.Equal(t, exitDone, <-ended, failed.String())
}

// TestWatch_CorruptLimiter_ShowsTheProblem: it is not shown as one with nothing taken.
func TestWatch_CorruptLimiter_ShowsTheProblem(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "")
	s.run("SADD {a}:value 1")
	put(s, "b", "x", grant("12345678", 1))
	require.Contains(t, s.on("watch", "a", "--count", "1"), "another type")
	require.Contains(t, s.on("watch", "b", "--count", "1"), "want a whole number")
}

// TestWatch_GrantOfTheFuture_CountsOnce: when its time has come.
func TestWatch_GrantOfTheFuture_CountsOnce(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "9")
	s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().Add(time.Second).UnixMilli()), grant("12345678", 3))
	out := s.on("watch", "a", "--every", "100ms", "--count", "25")
	require.Equal(t, 1, strings.Count(out, "granted=3"), out)
	require.Equal(t, 23, strings.Count(out, "granted=0"), out)
}
