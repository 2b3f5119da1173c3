package cli

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grant is a member in inspect.ByteLayout.
func grant(random string, permits uint32) string {
	return string(binary.LittleEndian.AppendUint32(append([]byte{byte(len(random))}, random...), permits))
}

// old is a member as 3.16.4 to 3.16.8 wrote it, older as those before.
func old(random string, permits uint32) string {
	return string(binary.LittleEndian.AppendUint32(append(binary.LittleEndian.AppendUint64(nil, uint64(len(random))),
		random...), permits))
}

func older(permits uint32) string {
	return string(binary.LittleEndian.AppendUint32([]byte{0x3e, 0x5f, 0x10, 0x20}, permits))
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
	idle := fmt.Sprint(time.Now().Add(-2 * time.Hour).UnixMilli())
	recent := fmt.Sprint(time.Now().Add(-30 * time.Minute).UnixMilli())
	four := grant("12345678", 4)
	for _, test := range []struct {
		name string
		make func(s *server)
		want []string // of the report
		left int      // problems that no repair takes away
		then []string // a command, and behind "=" what it answers after the repair; none if nothing is repaired
	}{
		{
			name: "nothing", make: func(s *server) { put(s, "a", "7", grant("12345678", 1), grant("x2345678", 2)) },
			want: []string{"1 limiter, 0 problems"},
		},
		{name: "unused", make: func(s *server) { put(s, "a", "") }},
		{
			name: "permits lost", make: func(s *server) { put(s, "a", "5", grant("12345678", 1)) },
			want: []string{"4 permits are lost: 5 free and 1 in grants, at a rate of 10", "set the value to 9"},
			then: []string{"GET {a}:value=9"},
		},
		{
			name: "too many", make: func(s *server) {
				put(s, "a", "10", four)
				s.run("PEXPIRE {a}:value 900000")
			},
			want: []string{"4 permits too many after a release in Java", `"{a}:value" expires in 1`},
			then: []string{"GET {a}:value=10", "EXISTS {a}:permits=0", "PTTL {a}:value=-1"},
		},
		{
			name: "too many, of a limiter that expires", make: func(s *server) {
				put(s, "a", "20", four)
				s.run("PEXPIRE a 900000", "PEXPIRE {a}:value 900001", "PEXPIRE {a}:permits 900001")
			},
			want: []string{"14 permits too many"}, then: []string{"GET {a}:value=6", "PTTL {a}:value>800000"},
		},
		{
			name: "value lost", make: func(s *server) { put(s, "a", "", four) },
			want: []string{"the value is missing beside 4 permits"}, then: []string{"GET {a}:value=6"},
		},
		{
			name: "value no number", make: func(s *server) { put(s, "a", "x", four) },
			want: []string{`the value "x" is not a number`}, then: []string{"GET {a}:value=6"},
		},
		{
			name: "set lost", make: func(s *server) { put(s, "a", "3") },
			want: []string{"7 permits are lost"}, then: []string{"GET {a}:value=10"},
		},
		{
			name: "old members and a wrong value", make: func(s *server) {
				put(s, "a", "1", old("abcdefgh", 2), grant("12345678", 1), older(3))
			},
			want: []string{"grants in the format of Redisson 3.16", "rewrite 2 of them"},
			then: []string{"ZCARD {a}:permits=3", "GET {a}:value=4"},
		},
		{
			name: "strange members and a wrong value", make: func(s *server) { put(s, "a", "1", "xyz", grant("12345678", 1)) },
			want: []string{"members that are not grants: 1"}, then: []string{"ZCARD {a}:permits=1", "GET {a}:value=9"},
		},
		{
			name: "strange members and no value", make: func(s *server) { put(s, "a", "", "xyz", grant("12345678", 1)) },
			then: []string{"ZCARD {a}:permits=1", "GET {a}:value=9"},
		},
		{
			name: "orphan", make: func(s *server) {
				s.run("SET {a}:value 3", "SET {a}:value:"+client1+" 3", "SET {b}:value 1 EX 100")
				s.words("ZADD", "{a}:permits", idle, grant("12345678", 1))
				s.words("ZADD", "{b}:permits", idle, grant("12345678", 1))
				s.run("EXPIRE {b}:permits 100", "SET {c}:value 5")
			},
			want: []string{"no limiter has this name, and the keys never expire", "the keys expire in 1m",
				"may not belong to a limiter"},
			then: []string{"KEYS {a}:*=", "GET {b}:value=1", "GET {c}:value=5"},
		},
		{
			name: "keys of other programs", make: func(s *server) {
				s.run("ZADD {team}:permits 1 user-123 2 user-124", "ZADD {dept}:permits 1 xxxxxxxx", "SET {dept}:value 5")
				s.words("ZADD", "{old}:permits", "17", four) // a score that is no time
			},
		},
		{
			name: "another type", make: func(s *server) { put(s, "a", "10"); s.run("SET {a}:value:" + client1 + " 3") },
			want: []string{`"a" is OVERALL by now, and counts by other keys`},
			then: []string{"GET {a}:value=10", "EXISTS {a}:value:" + client1 + "=0"},
		},
		{
			name: "idle client", make: func(s *server) {
				s.run("HSET a rate 10 interval 3600000 type 1", "SET {a}:value:"+client1+" 6", "SET {a}:value:"+client2+" 6")
				s.words("ZADD", "{a}:permits:"+client1, idle, four)
				s.words("ZADD", "{a}:permits:"+client2, recent, four)
			},
			want: []string{"client " + client1 + " has taken nothing", "0 problems"},
			then: []string{"EXISTS {a}:value:" + client1 + "=0", "EXISTS {a}:value:" + client2 + "=1"},
		},
		{
			name: "stays behind", make: func(s *server) { put(s, "a", "9", grant("12345678", 1)); s.run("EXPIRE a 5000") },
			want: []string{`"{a}:permits" never expires, and its limiter does in 1h`},
			then: []string{"PTTL {a}:permits>4000000", "PTTL {a}:value>4000000"},
		},
		{
			name: "dies before", make: func(s *server) {
				put(s, "a", "9", grant("12345678", 1))
				s.run("EXPIRE {a}:permits 1000")
			},
			want: []string{"taken permits would be freed"}, then: []string{"PTTL {a}:permits=-1"},
		},
		{
			name: "keep-alive without expiry", make: func(s *server) {
				put(s, "a", "9", grant("12345678", 1))
				s.run("HSET a keepAliveTime 7200000")
			},
			want: []string{"it has a keep-alive of 2h and no expiry"},
			then: []string{"PTTL a>7000000", "PTTL {a}:value>7000000", "PTTL {a}:permits>7000000"},
		},
		{
			name: "keep-alive without expiry, of clients", make: func(s *server) {
				s.run("HSET a rate 10 interval 3600000 type 1 keepAliveTime 7200000", "SET {a}:value:"+client1+" 6")
				s.words("ZADD", "{a}:permits:"+client1, recent, four)
			},
			then: []string{"PTTL a>7000000", "PTTL {a}:value:" + client1 + ">96000000", "GET {a}:value:" + client1 + "=6"},
		},
		{
			name: "policy without expiry", make: func(s *server) {
				s.on("try", "u", "--policy", "sliding_log:3/1h")
				s.run("PERSIST {u}:log:3600000")
			},
			want: []string{"it has no expiry, but each key of package limit has one"},
			then: []string{"PTTL {u}:log:3600000>7000000"},
		},
		{
			name: "policy of three lifetimes without expiry", make: func(s *server) {
				s.on("try", "u", "--policy", "fixed_window:5/100000d")
				s.run("PERSIST {u}:window:8640000000000")
			},
			then: []string{"PTTL {u}:window:8640000000000>8640000000000"},
		},
		{
			name: "policy that ends in the future, without expiry", make: func(s *server) {
				s.words("SET", "{u}:window:1000", fmt.Sprintf("epochs %d 3", time.Now().Add(time.Hour).UnixMilli()))
			},
			then: []string{"PTTL {u}:window:1000>3500000"},
		},
		{
			name: "window above the rate",
			make: func(s *server) { put(s, "a", "-3", grant("12345678", 9), grant("x2345678", 4)) },
			want: []string{"13 permits were granted within one interval"}, left: 1,
		},
		{
			name: "an interval apart", make: func(s *server) {
				put(s, "a", "-8")
				now := time.Now().UnixMilli()
				s.words("ZADD", "{a}:permits", fmt.Sprint(now-3600000), grant("12345678", 9), fmt.Sprint(now), grant("x2345678", 9))
			},
		},
		{
			name: "future", make: func(s *server) {
				put(s, "a", "9")
				s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), grant("12345678", 1))
			},
			want: []string{"the newest grant is dated"}, left: 1,
		},
		{
			name: "a name for no cluster", make: func(s *server) { s.run("HSET a}b rate 1 interval 1000 type 0") },
			want: []string{"the braces of this name"}, left: 1,
		},
		{
			name: "names that share",
			make: func(s *server) { s.run("HSET a rate 1 interval 1000 type 0", "HSET {a} rate 1 interval 1000 type 0") },
			want: []string{`the limiters "a" and "{a}" have the same state keys`}, left: 1,
		},
		{
			name: "corrupt", make: func(s *server) { s.run("HSET a rate 1 interval x type 0", "SET {a}:value 1") },
			want: []string{`the field "interval" is "x"`}, left: 1,
		},
		{
			name: "value of another type", make: func(s *server) { put(s, "a", ""); s.run("SADD {a}:value 1") },
			want: []string{"is of another type, want a string"}, left: 1,
		},
		{
			name: "set of another type", make: func(s *server) { put(s, "a", "9"); s.run("SADD {a}:permits 1") },
			want: []string{"is of another type, want a sorted set"}, left: 1,
		},
		{
			name: "a policy's key with something else", make: func(s *server) { s.run("SET {u}:bucket:1000 hello") },
			want: []string{"which package limit does not write", "0 problems"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startRedis(t)
			test.make(s)
			before := s.text("DEBUG", "DIGEST")
			r := tool("audit", "--redis", s.url())
			for _, want := range test.want {
				require.Contains(t, r.out, want, r.err)
			}
			require.Equal(t, before, s.text("DEBUG", "DIGEST"), "audit has changed something")
			r = tool("audit", "--fix", "--yes", "--redis", s.url())
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
