package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
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
			func() { s.words("SET", "{u}:window:1000", "epochs "+at(-time.Hour)+" 3") },
			nil, 0, []string{"PTTL {u}:window:1000>3500000"}},
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
	r := tool("audit", "--max", "1", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, "1 limiter, 0 problems\n"+
		"4 keys of others were skipped: use a PATTERN or raise --max\n")
	r = tool("audit", "--max", "1", "-o", "json", "--redis", s.url())
	require.Equal(t, exitDenied, r.code)
	require.Contains(t, r.out, `"left_out":4`)
	require.Equal(t, exitDone, tool("audit", "--redis", s.url()).code)
	require.Equal(t, exitDone, tool("audit", "a", "--max", "1", "--redis", s.url()).code)
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
