package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
)

// strange are names that terminals, shells and programs misunderstand.
var strange = []string{
	"-x", "--", "-\x1b[31mred", "a\nb", "a\rb", "a\tb", "\x1b]0;title\x07", "\u009b31m", "\u202eabc", "\x7f", "a\u2028b",
	"nul\x00nul", "\xff\xfe", "\xc3", "*", "[a-z]?", `back\slash`, `"quoted"`,
	"'", "$(reboot)", "{", "}", "{}", "{}x", "{{a}}", "a}b", "{t}:a", "日本語", "👩‍👩‍👧", " ", "", "a:value",
	"a:permits:" + client1, "{a}:window:1000", "U+FFFD \ufffd", "\u200b",
}

// TestNames_ControlCharacters_AreEscaped: in any output. Programs can read the JSON and find the
// name.
func TestNames_ControlCharacters_AreEscaped(t *testing.T) {
	s := startRedis(t)
	for _, name := range strange {
		s.run("FLUSHALL")
		s.words("HSET", name, "rate", "10", "interval", "3600000", "type", "0")
		raw := name
		if strings.HasPrefix(name, `"`) {
			name = names.Quote(name)
		}
		commands := [][]string{{"ls"}, {"audit"}}
		if name != "" {
			commands = append(commands, []string{"show", "--", name}, []string{"try", "--", name},
				[]string{"watch", "--count", "1", "--", name}, []string{"set", "--", name, "20/1h"},
				[]string{"reset", "--yes", "--", name}, []string{"try", "--policy", "fixed_window:5/1h", "--", name},
				[]string{"show", "--all", "--", name}, []string{"reset", "--yes", "--all", "--", name},
				[]string{"release", "--policy", "fixed_window:5/1h", "--", name}, []string{"show", "--", name + "missing"},
				[]string{"try", "--", name + "missing"}, []string{"reset", "--", name}, []string{"show", name},
				[]string{"ls", "--" + name}, []string{"ls", "-o", name}, []string{name})
		}
		for _, args := range commands {
			for _, format := range []string{"text", "json"} {
				if format == "json" && slices.Contains(args, name+"missing") {
					continue // the same error
				}
				r := tool(append([]string{"--redis", s.url(), "-o", format}, args...)...)
				for _, c := range r.out + r.err {
					require.True(t, c == '\n' || c == '\t' || unicode.IsPrint(c), "%q %q: %q", name, args, r.out+r.err)
				}
				if format == "json" && r.code != exitError && args[0] != "--" {
					for line := range strings.Lines(r.out) {
						require.True(t, json.Valid([]byte(line)), "%q %q: %s", name, args, line)
					}
				}
			}
		}
		name = raw
		var list struct{ Limiters []struct{ Name string } }
		require.NoError(t, json.Unmarshal([]byte(tool("ls", "-o", "json", "--redis", s.url()).out), &list))
		require.NotEmpty(t, list.Limiters, "%q", name)
		require.Equal(t, name, names.Unquote(list.Limiters[0].Name))
	}
}

// Names that JSON cannot hold stay distinct, and their text is accepted as an argument.
func TestNames_OfAnyBytes_CanBeCopiedFromTheOutput(t *testing.T) {
	s := startRedis(t)
	all := []string{"\xff", "\xfe", "\xff\xfe", "\ufffd", `"quoted"`, "quoted", "nul\x00nul", `"\xff"`, "a b"}
	for i, name := range all {
		s.words("HSET", name, "rate", strconv.Itoa(10+i), "interval", "3600000", "type", "0")
	}
	var list struct {
		Limiters []struct {
			Name    string
			Permits int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.on("ls", "-o", "json")), &list))
	require.Len(t, list.Limiters, len(all))
	var report []string
	for _, l := range list.Limiters {
		report = append(report, l.Name)
		name := all[l.Permits-10]
		for _, written := range []string{l.Name, names.Quote(name)} {
			shown := s.on("show", "-o", "json", "--", written)
			require.Contains(t, shown, fmt.Sprintf(`"permits":%d`, l.Permits), written)
			s.on("ls", "--", written)
			var tried struct{ Limiter string }
			require.NoError(t, json.Unmarshal([]byte(s.on("try", "-o", "json", "--", written)), &tried))
			require.Equal(t, l.Name, tried.Limiter)
			require.Contains(t, s.on("watch", "--count", "1", "--", written), "taken=")
			s.on("set", "--", written, fmt.Sprintf("%d/1h", l.Permits))
			s.on("reset", "--yes", "--", written)
		}
	}
	slices.Sort(report)
	require.Len(t, slices.Compact(report), len(all), "two names are written alike")
	keys, err := s.words("KEYS", "{*:permits").AsStrSlice()
	require.NoError(t, err)
	require.Empty(t, keys, "a permit was taken of another limiter")
}

func TestChanges_JSON_IsValid(t *testing.T) {
	s := startRedis(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "api", "10/1h"}, `{"limiter":"api","type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0,"set":true}`},
		{[]string{"set", "api", "20/1h", "--keep-alive", "2h"},
			`{"limiter":"api","type":"OVERALL","permits":20,"interval_ms":3600000,"keep_alive_ms":7200000,"set":true,"was":{"type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0}}`},
		{[]string{"set", "api", "30/1h", "--if-absent"},
			`{"limiter":"api","type":"OVERALL","permits":30,"interval_ms":3600000,"keep_alive_ms":7200000,"set":false}`},
		{[]string{"set", "new", "30/1h", "--if-absent"},
			`{"limiter":"new","type":"OVERALL","permits":30,"interval_ms":3600000,"keep_alive_ms":0,"set":true}`},
		{[]string{"release", "api", "-n", "2"}, `{"limiter":"api","released_at_most":2}`},
		{[]string{"reset", "api", "--yes"}, `{"limiter":"api","reset":"OVERALL","taken":0}`},
	} {
		r := tool(append(test.args, "-o", "json", "--redis", s.url())...)
		require.JSONEq(t, test.want, r.out, r.err)
	}
}
