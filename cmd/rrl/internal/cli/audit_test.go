package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/audit"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// grant is a member of a random part and permits.
func grant(random string, permits uint32) string {
	return string(binary.LittleEndian.AppendUint32(append([]byte{byte(len(random))}, random...), permits))
}

// put puts a limiter of 10 in an hour, with a value, "" for none, and grants of the last minutes.
func put(s *server, name, value string, members ...string) {
	s.run("HSET " + name + " rate 10 interval 3600000 type 0")
	if value != "" {
		s.run("SET {" + name + "}:value " + value)
	}
	for i, member := range members {
		s.words("ZADD", "{"+name+"}:permits",
			strconv.FormatInt(time.Now().Add(time.Duration(i-len(members))*time.Minute).UnixMilli(), 10), member)
	}
}

// TestAudit_EachDamage_IsReportedAndRepaired: one repair is enough, also of several problems, and
// valid state stays unchanged.
func TestAudit_EachDamage_IsReportedAndRepaired(t *testing.T) {
	at := func(ago time.Duration) string { return fmt.Sprint(time.Now().Add(-ago).UnixMilli()) }
	one, four := grant("12345678", 1), grant("12345678", 4)
	s := startRedis(t)
	for _, test := range []struct {
		name string
		make func()
		want []string // of the report
		left int      // problems that no repair takes away
		then []string // a command, and behind "=" what it answers after the repair; none if nothing is repaired
	}{
		{"nothing", func() { put(s, "a", "7", one, grant("x2345678", 2)) }, []string{"1 limiter, 0 problems"}, 0, nil},
		{"unused", func() { put(s, "a", "") }, nil, 0, nil},
		{"too many", func() { put(s, "a", "10", four); s.run("PEXPIRE {a}:value 900000") },
			[]string{"4 permits too many after a release in Java", `"{a}:value" expires in 1`}, 0,
			[]string{"EXISTS {a}:value=1", "PTTL {a}:value=-1"}},
		{"too many, of a limiter that expires", func() {
			put(s, "a", "20", four)
			s.run("PEXPIRE a 900000", "PEXPIRE {a}:value 900001", "PEXPIRE {a}:permits 900001")
		},
			[]string{"14 permits too many"}, 0, []string{"GET {a}:value=6", "PTTL {a}:value>800000"}},
		{"value lost", func() { put(s, "a", "", four) },
			[]string{"the value is missing beside 4 permits"}, 0, []string{"GET {a}:value=6"}},
		{"value no number", func() { put(s, "a", "x", four) },
			[]string{`the value "x" is not a number`}, 1, nil},
		{"rate lowered", func() { put(s, "a", "90", grant("12345678", 10)) },
			[]string{"the rate was lowered: 90 free and 10 in grants, at a rate of 10"}, 0, []string{"GET {a}:value=0"}},
		{"set lost", func() { put(s, "a", "3") }, []string{"7 permits are lost"}, 0, []string{"GET {a}:value=10"}},
		{"value of a client", func() {
			s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 1")
			s.words("ZADD", "{a}:permits:"+client1, at(0), grant("12345678", 2))
		}, []string{"7 permits are lost"}, 0, []string{"GET {a}:value:" + client1 + "=8"}},
		{"members that are no grants", func() { put(s, "a", "9", "xyz", one) },
			[]string{"members that are not grants: 1"}, 1, nil},
		{"orphan", func() {
			s.run("SET {a}:value 3", "SET {a}:value:"+client1+" 3", "SET {b}:value 1 EX 100", "SET {c}:value 5")
			s.words("ZADD", "{a}:permits", at(2*time.Hour), one)
			s.words("ZADD", "{b}:permits", at(2*time.Hour), one)
			s.run("EXPIRE {b}:permits 100")
		},
			[]string{"no limiter has this name, and the keys never expire", "the keys expire in 1m", "may not belong to a limiter"},
			0, []string{"KEYS {a}:*=", "GET {b}:value=1", "GET {c}:value=5"}},
		{"keys of other programs", func() {
			s.run("ZADD {team}:permits 1 user-123 2 user-124", "ZADD {dept}:permits 1 xxxxxxxx", "SET {dept}:value 5")
			s.words("ZADD", "{old}:permits", "17", four) // a score that is no time
		}, nil, 0, nil},
		{"another type", func() { put(s, "a", "10"); s.run("SET {a}:value:" + client1 + " 3") },
			[]string{`"a" is OVERALL by now, and counts by other keys`}, 0,
			[]string{"GET {a}:value=10", "EXISTS {a}:value:" + client1 + "=0"}},
		{"idle client", func() {
			s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 6", "SET {a}:value:"+client2+" 6")
			s.words("ZADD", "{a}:permits:"+client1, at(2*time.Hour), four)
			s.words("ZADD", "{a}:permits:"+client2, at(time.Hour/2), four)
		},
			[]string{"client " + client1 + " has taken nothing", "0 problems"}, 0,
			[]string{"EXISTS {a}:value:" + client1 + "=0", "EXISTS {a}:value:" + client2 + "=1"}},
		{"stays behind", func() { put(s, "a", "9", one); s.run("EXPIRE a 5000") },
			[]string{`"{a}:permits" never expires, and its limiter does in 1h`}, 0,
			[]string{"PTTL {a}:permits>4000000", "PTTL {a}:value>4000000"}},
		{"dies before", func() { put(s, "a", "9", one); s.run("EXPIRE {a}:permits 1000") },
			[]string{"taken permits would be freed"}, 0, []string{"PTTL {a}:permits=-1"}},
		{"keep-alive without expiry", func() { put(s, "a", "9", one); s.run("HSET a keepAliveTime 7200000") },
			[]string{"it has a keep-alive of 2h and no expiry"}, 0,
			[]string{"PTTL a>7000000", "PTTL {a}:value>7000000", "PTTL {a}:permits>7000000"}},
		{"keep-alive without expiry, of clients", func() {
			s.run("HSET a rate 10 interval 3600000 type 1 keepAliveTime 7200000", "SET {a}:value:"+client1+" 6")
			s.words("ZADD", "{a}:permits:"+client1, at(time.Hour/2), four)
		},
			nil, 0, []string{"PTTL a>7000000", "PTTL {a}:value:" + client1 + ">96000000", "GET {a}:value:" + client1 + "=6"}},
		{"policy without expiry", func() {
			s.on("try", "u", "--policy", "sliding_log:3/1h")
			s.run("PERSIST {u}:log:3600000")
		},
			[]string{"it has no expiry, but each key of package limit has one"}, 0, []string{"PTTL {u}:log:3600000>7000000"}},
		{"policy of three lifetimes without expiry", func() {
			s.on("try", "u", "--policy", "fixed_window:5/100000d")
			s.run("PERSIST {u}:window:8640000000000")
		}, nil, 0, []string{"PTTL {u}:window:8640000000000>8640000000000"}},
		{
			"policy that ends in the future, without expiry",
			func() { s.words("RPUSH", "{u}:log:1000", "epochs "+at(-time.Hour)+" 0 3 3") },
			nil, 0, []string{"PTTL {u}:log:1000>3500000"}},
		{"window above the rate", func() { put(s, "a", "-3", grant("12345678", 9), grant("x2345678", 4)) },
			[]string{"13 permits were granted within one interval"}, 1, nil},
		{"an interval apart", func() {
			put(s, "a", "-8")
			now := time.Now().UnixMilli()
			s.words("ZADD", "{a}:permits", fmt.Sprint(now-3600000), grant("12345678", 9), fmt.Sprint(now), grant("x2345678", 9))
		}, nil, 0, nil},
		{"future", func() { put(s, "a", "9"); s.words("ZADD", "{a}:permits", at(-time.Hour), one) },
			[]string{"the newest grant is dated"}, 1, nil},
		{"a name for no cluster", func() { s.run("HSET a}b rate 1 interval 1000 type 0") },
			[]string{"the braces of this name"}, 1, nil},
		{"names that share", func() { s.run("HSET a rate 1 interval 1000 type 0", "HSET {a} rate 1 interval 1000 type 0") },
			[]string{`the limiters "a" and "{a}" have the same state keys`}, 1, nil},
		{"corrupt", func() { s.run("HSET a rate 1 interval x type 0", "SET {a}:value 1") },
			[]string{`the field "interval" is "x"`}, 1, nil},
		{"value of another type", func() { put(s, "a", ""); s.run("SADD {a}:value 1") },
			[]string{"is of another type, want a string"}, 1, nil},
		{"set of another type", func() { put(s, "a", "9"); s.run("SADD {a}:permits 1") },
			[]string{"is of another type, want a sorted set"}, 1, nil},
		{"a policy's key with something else", func() { s.run("SET {u}:bucket:1000 hello") },
			[]string{"which package limit does not write", "0 problems"}, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.TB = t
			s.run("FLUSHALL")
			test.make()
			before := s.text("DEBUG", "DIGEST")
			r := tool("audit", "--redis", s.url())
			for _, want := range test.want {
				require.Contains(t, r.out, want, r.err)
			}
			require.Equal(t, before, s.text("DEBUG", "DIGEST"), "audit has changed something")
			r = tool("audit", "--fix", "--redis", s.url())
			require.NotEqual(t, exitError, r.code, r.err)
			if len(test.then) > 0 {
				require.Contains(t, r.out, "repaired: ")
			} else {
				require.Equal(t, before, s.text("DEBUG", "DIGEST"))
			}
			for _, then := range test.then {
				holds(t, s, then)
			}
			after := tool("audit", "--redis", s.url())
			require.Contains(t, after.out, fmt.Sprintf(" %d problem", test.left))
			require.Equal(t, test.left > 0, after.code == exitDenied, after.out)
		})
	}
}

// TestAudit_JSON_NamesTheKey: of each finding.
func TestAudit_JSON_NamesTheKey(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "")
	s.run("SADD {a}:value 1", "SADD {a}:permits 1")
	var report struct{ Findings []struct{ Key, Text string } }
	require.NoError(t, json.Unmarshal([]byte(tool("audit", "-o", "json", "--redis", s.url()).out), &report))
	require.Len(t, report.Findings, 2)
	for _, f := range report.Findings {
		require.Contains(t, f.Text, strconv.Quote(f.Key))
	}
}

// An audit that has left out keys has not shown that nothing is wrong.
func TestAudit_KeysLeftOut_ExitsWithOne(t *testing.T) {
	s := startRedis(t)
	for _, name := range []string{"a", "b", "c"} {
		put(s, name, "9", grant("12345678", 1))
	}
	r := s.ends(exitDenied, "audit", "--max", "1")
	require.Contains(t, r.out, "1 limiter, 0 problems\n"+
		"4 keys of others were skipped: use a PATTERN or raise --max\n")
	r = s.ends(exitDenied, "audit", "--max", "1", "-o", "json")
	require.Contains(t, r.out, `"left_out":4`)
	s.ends(exitDone, "audit")
	s.ends(exitDone, "audit", "a", "--max", "1")
}

// TestAudit_Values_AreParsedAsByTheLibrary: a text that the library rejects is reported, even if it
// looks like a number.
func TestAudit_Values_AreParsedAsByTheLibrary(t *testing.T) {
	s := startRedis(t)
	for _, value := range []string{"9223372036854775807", "100000000000000000", "-99999999999999999", "-0", "007", "+7"} {
		s.run("FLUSHALL")
		put(s, "a", value, grant("12345678", 1))
		_, err := rratelimiter.New(s.Client).Limiter("a").TryAcquire(context.Background(), 1)
		var state *rratelimiter.StateError
		require.ErrorAs(t, err, &state, value)
		require.Contains(t, tool("audit", "--redis", s.url()).out, "is not a number", value)
		require.Contains(t, s.corrupt("a"), "is not a number", value)
	}
}

// holds reports whether a command has this answer: "COMMAND=ANSWER", or with > a number above another.
func holds(t *testing.T, s *server, then string) {
	t.Helper()
	cut := strings.LastIndexAny(then, "=>")
	result := s.words(strings.Fields(then[:cut])...)
	message, _ := result.ToMessage()
	got := ""
	if n, err := message.AsInt64(); err == nil {
		got = fmt.Sprint(n)
	} else if text, err := message.ToString(); err == nil {
		got = text
	} else if list, err := message.AsStrSlice(); err == nil {
		got = strings.Join(list, " ")
	}
	if then[cut] == '>' {
		n, _ := strconv.Atoi(got)
		least, _ := strconv.Atoi(then[cut+1:])
		require.Greater(t, n, least, then)
		return
	}
	require.Equal(t, then[cut+1:], got, then)
}

func (s *server) reader() *inspect.Reader {
	return &inspect.Reader{Redis: &connect.Redis{Client: s.Client, Where: s.addr}, Now: time.Now}
}

// find finds all limiters.
func find(t testing.TB, reader *inspect.Reader) *inspect.Found {
	t.Helper()
	found, err := reader.Find(context.Background(), inspect.Search{Pages: 10})
	require.NoError(t, err)
	return found
}

// audited audits the limiters that were found.
func audited(t testing.TB, reader *inspect.Reader, found *inspect.Found) []*audit.Finding {
	t.Helper()
	findings, err := audit.Check(context.Background(), reader, found, 10)
	require.NoError(t, err)
	return findings
}

// TestAudit_LimiterChangesMeanwhile_IsNoFinding: between the search and the audit.
func TestAudit_LimiterChangesMeanwhile_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "6", grant("12345678", 4))
	put(s, "b", "9", grant("12345678", 1))
	s.run("DEL b")
	reader := s.reader()
	found := find(t, reader)
	require.Len(t, found.Orphans, 1)
	s.on("set", "a", "20/1h")
	s.run("HSET b rate 10 interval 3600000 type 0")
	require.Empty(t, audited(t, reader, found))
}

// TestAudit_PairInUse_IsNoFinding: a value that changes during every read is not reported.
func TestAudit_PairInUse_IsNoFinding(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	reader := s.reader()
	found := find(t, reader)
	reader.Redis.Client = interrupted{s.Client, func(string) { s.run("DECR {a}:value") }}
	require.Empty(t, audited(t, reader, found))
}

// TestRefresh_LimiterChanged_FindsWhatIsLeft: reset deletes no pair that has expired, and watch shows no
// empty client.
func TestRefresh_LimiterChanged_FindsWhatIsLeft(t *testing.T) {
	s := startRedis(t)
	reader := s.reader()
	refreshed := func(change string) *inspect.Found {
		found, err := reader.Of(context.Background(), "a", inspect.Search{Pages: 10})
		require.NoError(t, err)
		s.run(change)
		require.NoError(t, reader.Refresh(context.Background(), "a", found, 10))
		return found
	}
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10")
	require.Empty(t, audited(t, reader, refreshed("DEL {a}:value:"+client1)))
	put(s, "a", "6", grant("12345678", 4))
	require.Empty(t, refreshed("HSET a type 1").Redisson[0].Pairs)
}

// TestRepair_OneFails_ReportsEach: the repairs that were made and those that are left.
func TestRepair_OneFails_ReportsEach(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	put(s, "b", "9", grant("12345678", 1))
	s.run("PEXPIRE {b}:permits 100000")
	put(s, "c", "5", grant("12345678", 1))
	s.run("ACL SETUSER smith on >secret ~* +@all -persist")
	r := ends(t, exitError, "audit", "--fix", "--redis", "redis://smith:secret@"+s.addr)
	require.Contains(t, r.err, `"b"`)
	require.Contains(t, r.err, "denies this user")
	require.Contains(t, r.out, "repaired: count the permits", "what was done before is not reported")
	require.Contains(t, r.out, "failed: take its expiry off")
	holds(t, s, "GET {a}:value=9")
	holds(t, s, "GET {c}:value=9")
}

// TestAudit_Interrupted_ReportsRepairs: that were made before.
func TestAudit_Interrupted_ReportsRepairs(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "5", grant("12345678", 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reader := s.reader()
	a := &app{out: io.Discard, err: io.Discard, redis: reader.Redis, reader: reader}
	findings := audited(t, reader, find(t, reader))
	require.ErrorIs(t, a.fix(ctx, findings), context.Canceled)
	require.Equal(t, audit.Failed, findings[0].Result)
	holds(t, s, "GET {a}:value=5")
}

// interrupted is a connection beside which something happens ahead of each command.
type interrupted struct {
	rueidis.Client
	before func(command string)
}

func (c interrupted) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.before(command.Commands()[0])
	return c.Client.Do(ctx, command)
}

func (c interrupted) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.before(commands[0].Commands()[0])
	return c.Client.DoMulti(ctx, commands...)
}

// TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken: the server's clock decides.
func TestRepair_ClockOfThisHostIsAhead_TakenPermitsStayTaken(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 0")
	s.words("ZADD", "{a}:permits:"+client1, fmt.Sprint(time.Now().UnixMilli()), grant("12345678", 10))
	ahead := func() time.Time { return time.Now().Add(2 * time.Hour) }
	require.NotContains(t, toolAt(ahead, "audit", "--fix", "--redis", s.url()).out, "repaired")
	holds(t, s, "GET {a}:value:"+client1+"=0")
}

// A set that the library does not count is reported, and stays.
func TestAudit_DriftOfALargeSet_IsReportedOnly(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 100000 interval 3600000 type 0", "SET {a}:value 1")
	s.words("EVAL", `for i = 1, ARGV[2] do
		redis.call('ZADD', KEYS[1], ARGV[1] + i, '\8' .. string.format('%08d', i) .. '\1\0\0\0')
	end`, "1", "{a}:permits", fmt.Sprint(time.Now().Add(-time.Minute).UnixMilli()), strconv.Itoa(inside.MostCounted+1))
	before := s.text("DEBUG", "DIGEST")
	r := s.ends(exitDenied, "audit", "--fix")
	require.Contains(t, r.out, fmt.Sprintf("a count of its permits takes at most %d grants, and it has %d", inside.MostCounted, inside.MostCounted+1))
	require.NotContains(t, r.out, "repaired")
	require.Equal(t, before, s.text("DEBUG", "DIGEST"))
}

// TestRepair_LimiterChanged_ChangesNothing: the limiter changes between the audit and the repair.
func TestRepair_LimiterChanged_ChangesNothing(t *testing.T) {
	s := startRedis(t)
	reader := s.reader()
	orphan := func(s *server) { s.run("SET {a}:value:" + client1 + " 3") }
	idle := func(s *server) { s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10") }
	left := func(s *server) {
		s.run("HSET a rate 10 interval 60000 type 1", "SET {a}:value:"+client1+" 0")
		at := fmt.Sprint(time.Now().Add(-30 * time.Minute).UnixMilli())
		s.words("ZADD", "{a}:permits:"+client1, at, grant("12345678", 10))
	}
	stays := func(s *server) { put(s, "a", "10"); s.run("PEXPIRE a 5000000") }
	dies := func(s *server) { put(s, "a", "10"); s.run("PEXPIRE {a}:value 5000000") }
	for _, test := range []struct {
		kind string
		make func(s *server)
		then string
	}{
		{audit.KindOrphan, orphan, "HSET a rate 10 interval 3600000 type 1"},
		{audit.KindOrphan, orphan, "HSET {a} rate 10 interval 3600000 type 1"},
		{audit.KindIdle, idle, fmt.Sprintf("ZADD {a}:permits:%s %d x1234567", client1, time.Now().UnixMilli())},
		{audit.KindIdle, left, "HSET a interval 3600000"},
		{audit.KindExpiry, stays, "PERSIST a"},
		{audit.KindExpiry, stays, "PEXPIRE {a}:value 7000000"},
		{audit.KindExpiry, dies, "PEXPIRE a 9000000"},
	} {
		s.run("FLUSHALL")
		test.make(s)
		findings := audited(t, reader, find(t, reader))
		require.Len(t, findings, 1)
		require.Equal(t, test.kind, findings[0].Kind)
		require.NotEmpty(t, findings[0].Repair)
		s.run(test.then)
		before := s.text("DEBUG", "DIGEST")
		require.NoError(t, findings[0].Fix(context.Background(), reader, 10))
		require.Equal(t, audit.Changed, findings[0].Result, test.then)
		require.Equal(t, before, s.text("DEBUG", "DIGEST"), test.then)
	}
}

// TestRepair_LimiterIsUsedAfterTheCheck_ChangesNothing: a client takes a permit between the check that
// precedes the repair and the repair.
func TestRepair_LimiterIsUsedAfterTheCheck_ChangesNothing(t *testing.T) {
	s := startRedis(t)
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 10")
	reader := s.reader()
	findings := audited(t, reader, find(t, reader))
	require.Len(t, findings, 1)
	reader.Redis.Client = interrupted{s.Client, func(command string) {
		if command == "TIME" { // the last one of the check
			s.run("DECR {a}:value:" + client1)
		}
	}}
	require.NoError(t, findings[0].Fix(context.Background(), reader, 10))
	require.Equal(t, audit.Changed, findings[0].Result)
	holds(t, s, "GET {a}:value:"+client1+"=9")
}

// TestOrphan_KeysOfASkippedName_AreNone: the name is not in the pattern, or empty, or shares its keys.
func TestOrphan_KeysOfASkippedName_AreNone(t *testing.T) {
	s := startRedis(t)
	now := fmt.Sprint(time.Now().UnixMilli())
	s.run("HSET {a} rate 10 interval 3600000 type 0", "SET {a}:value 9", "SET {}:value 6")
	s.words("ZADD", "{a}:permits", now, grant("12345678", 1))
	s.words("HSET", "", "rate", "10", "interval", "3600000", "type", "0")
	s.words("ZADD", "{}:permits", now, grant("12345678", 4))
	require.Contains(t, s.on("audit", "a"), "0 problems")
	s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 6")
	s.words("ZADD", "{a}:permits:"+client1, now, grant("12345678", 4))
	require.NotContains(t, tool("audit", "--fix", "--redis", s.url()).out, "orphan")
	holds(t, s, "GET {}:value=6")
	require.Contains(t, s.on("ls", "a"), "4      6     1")
}
