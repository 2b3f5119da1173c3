package names

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// policies are written as users write them, each kind at least once.
var policies = []string{
	"fixed_window:5/1m", "fixed_window:5/s,aligned", "sliding_window:100/1m", "sliding_window:100/1m,cells=60",
	"sliding_log:10/500ms", "token_bucket:5/1s", "token_bucket:5/1s,capacity=20",
	"leaky_bucket:5/2h,capacity=20",
	"smooth:5/1s", "smooth:5/1s,burst=2s,warm_up=3s", "calendar:1000/day",
	"calendar:10/week,in=Europe/Berlin", "calendar:7/month,in=UTC", "calendar:9/year",
	"fixed_window:1/7d",
}

// TestParse_KeysOfTheLibrary_AreRead: as the policy that wrote them.
func TestParse_KeysOfTheLibrary_AreRead(t *testing.T) {
	server := miniredis.RunT(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true,
		DisableCache: true})
	require.NoError(t, err)
	defer redis.Close()
	lib := rratelimiter.New(redis)
	for _, name := range []string{"user", "a:window:5", "{tenant}:x", "a}b", "bob", "{bob}", "{bob}:"} {
		for _, text := range policies {
			given, err := ParsePolicy(text)
			require.NoError(t, err, text)
			server.FlushAll()
			_, err = limit.New(lib, name, given.Policy).TryAcquire(context.Background(), 1)
			require.NoError(t, err, text)
			require.Equal(t, []string{given.Stored.KeyOf(name)}, server.Keys(), text)
			parsed, ok := Parse(given.Stored.KeyOf(name))
			require.True(t, ok)
			require.Equal(t, []string{name}, parsed.Names())
			stored, ok := ParseStored(parsed.Policy)
			require.True(t, ok)
			require.Equal(t, given.Stored, stored, text)

			require.NoError(t, limit.New(lib, name, stored.Policy).Reset(context.Background()))
			require.Empty(t, server.Keys(), "it has another key than %s", text)
		}
	}
}

func TestParse_OtherKeys_AreSplit(t *testing.T) {
	const id = "5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01"
	for key, want := range map[string]Key{
		"{a}:value":                        {Part: Value, Prefix: "{a}"},
		"{a}:permits":                      {Part: Permits, Prefix: "{a}"},
		"{a}:value:" + id:                  {Part: Value, Prefix: "{a}", Client: id},
		"{t}:a:permits:" + id:              {Part: Permits, Prefix: "{t}:a", Client: id},
		"{a}:window:1000":                  {Part: Policy, Prefix: "{a}", Policy: "window:1000", name: "a"},
		"{a}:sliding:1000:10":              {Part: Policy, Prefix: "{a}", Policy: "sliding:1000:10", name: "a"},
		"{t}:day:UTC::day:UTC":             {Part: Policy, Prefix: "{t}:day:UTC", Policy: "day:UTC", name: "{t}:day:UTC"},
		"{a}::window:1000":                 {Part: Policy, Prefix: "{a}", Policy: "window:1000", name: "{a}"},
		"{t}:a:window:1000":                {}, // of no name
		"{a}:month:Europe/Berlin":          {Part: Policy, Prefix: "{a}", Policy: "month:Europe/Berlin", name: "a"},
		"{a}:value:" + strings.ToUpper(id): {}, // Java and Go write small letters, and would not find it
		"a:value":                          {}, "value": {}, "{a}:value:x": {}, "{a}:window:0": {}, "{a}:window:01": {},
		"{a}:sliding:1000":   {},
		"{a}:sliding:1000:1": {}, "{a}:day:Nowhere": {}, "{a}:day:": {}, "{a}:window:99999999999999999": {}, "": {},
		"{": {}, ":value": {},
	} {
		got, ok := Parse(key)
		require.Equal(t, want, got, key)
		require.Equal(t, want.Part != 0, ok, key)
	}
	require.Equal(t, []string{"a", "{a}"}, Key{Prefix: "{a}"}.Names())
	require.Equal(t, []string{"{t}:a"}, Key{Prefix: "{t}:a"}.Names())
}

func TestParsePolicy_OtherTexts_AreRefused(t *testing.T) {
	for _, text := range []string{"", "x", "x:1/1s", "window:1", "calendar:0/day", "calendar:1/day,in=",
		"calendar:1/day,in=Nowhere", "sliding_window:1/1s,cells=1", "fixed_window:1/1s/1",
		"token_bucket:1/1s,capacity=0", "smooth:1/1s,x=1", "smooth:1/1s,burst"} {
		_, err := ParsePolicy(text)
		require.ErrorContains(t, err, "is not a policy", text)
	}
}

func TestAbout_Durations_AreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 131 * time.Millisecond: "131ms", 1234 * time.Millisecond: "1.2s", 59999 * time.Millisecond: "1m",
		3*time.Hour + 10*time.Second: "3h", 50 * time.Hour: "2d",
	} {
		require.Equal(t, want, About(d))
	}
	require.Equal(t, "106751d", AboutMillis(1e13), "a TTL may be longer than the longest Duration")
}

// TestMatch_Patterns_AreRedis: also with slashes, which are special in package path.
func TestMatch_Patterns_AreRedis(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"", "a", false}, {"a*", "abc", true}, {"a*d", "abc", false}, {"h[a-c]llo", "hbllo", true},
		{"h[^e]llo", "hello", false}, {`a\*`, "a*", true}, {`a\*`, "ab", false}, {"[", "[", false}, {"{a}:*", "{a}:x", true},
		{"a*/c", "a/b/c", true}, {"a?c", "a/c", true}, {"a[/]c", "a/c", true}, {"a*", "a\xff/", true},
	} {
		require.Equal(t, test.want, Match(test.pattern, test.name), "%q %q", test.pattern, test.name)
	}
	require.True(t, Match(Pattern(`a*[x]\`), Suffixed(`a*[x]\`, "value")))
	require.False(t, Match(Pattern("a*"), Suffixed("ab", "value")))
}

func TestNewGiven_NewPolicy_NeedsNotation(t *testing.T) {
	policytest.Register(t)
	given, err := NewGiven(policytest.Novel{FixedWindow: policytest.Window})
	require.NoError(t, err)
	assert.Equal(t, int64(3), given.Most)
	assert.Equal(t, "{a}:novel:3600000", given.Stored.KeyOf("a"))
	_, err = NewGiven(policytest.Incomplete{FixedWindow: policytest.Window})
	assert.EqualError(t, err, "rrl cannot read the keys of policytest.Incomplete")
}

var odd = []string{
	"plain", "日本語", "a b", "a\nb", "\xff\xfe", "\xff", "\xc3", "\ufffd", "\xef\xbf",
	"\xed\xa0\x80", "nul\x00nul", `"`, `""`, `"quoted"`, `"half`, `half"`,
	`\xff`, `"\xff"`, `"\"twice\""`, "'", "`", "\u202e", "👩‍👩‍👧", "\x7f", "\U0010ffff", `back\slash`,
}

// Names that differ differ in JSON, and what stands in JSON is accepted as an argument.
func TestName_InJSON_IsReversible(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range odd {
		text, err := json.Marshal(struct {
			Name Name `json:"name,omitempty"`
		}{Name(name)})
		require.NoError(t, err)
		var back struct{ Name string }
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, name, Unquote(back.Name), "%s", text)
		require.NotContains(t, back.Name, "\x00", "no argument can hold it")
		require.NotContains(t, seen, back.Name, "%q", name)
		seen[back.Name] = name
	}
	require.Contains(t, seen, "日本語", "text stays as it is")
	require.Contains(t, seen, "a\nb")
	require.Contains(t, seen, `"\xff\xfe"`)
}

// What stands in tables is accepted as an argument too.
func TestQuote_InText_IsReversible(t *testing.T) {
	for _, name := range odd {
		require.Equal(t, name, Unquote(Quote(name)))
	}
	require.Equal(t, `"a b"`, Quote("a b"))
	require.Equal(t, `"\xff\xfe"`, Quote("\xff\xfe"))
	require.Equal(t, `"\"quoted\""`, Quote(`"quoted"`))
	require.Equal(t, "日本語", Quote("日本語"))
}

func TestUnquote_NoQuotedName_StaysAsItIs(t *testing.T) {
	for _, text := range []string{"", "plain", `"`, `""`, `"half`, `half"`, `'a'`, "`a`", `"a"b"`, `"\y"`, "\"a\nb\""} {
		require.Equal(t, text, Unquote(text))
	}
}

// TestMayBePolicy_Marks_AreNone: keys of the library that expire by themselves.
func TestMayBePolicy_Marks_AreNone(t *testing.T) {
	for key, want := range map[string]bool{
		"{bob}:counted": false, "{bob}:x:counted": false, "{bob}:settled:9b6c5027642c346e": false,
		"{bob}:waiters:9b6c5027642c346e": false,
		"{bob}:counter":                  true,
	} {
		_, ok := MayBePolicy(key)
		require.Equal(t, want, ok, key)
	}
}
