package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// strange are names that terminals, shells and programs misunderstand.
var strange = []string{
	"-x", "--", "-\x1b[31mred", "a\nb", "a\rb", "a\tb", "\x1b]0;title\x07", "\u009b31m", "\u202eabc", "\x7f", "a\u2028b", "nul\x00nul", "\xff\xfe", "\xc3", "*", "[a-z]?", `back\slash`, `"quoted"`,
	"'", "$(reboot)", "{", "}", "{}", "{}x", "{{a}}", "a}b", "{t}:a", "日本語", "👩‍👩‍👧", " ", "", "a:value", "a:permits:" + client1, "{a}:window:1000", "U+FFFD \ufffd", "\u200b",
}

// TestStrangeNames: no name writes to the terminal what the terminal obeys, in any output; JSON is JSON that a program can read, and finds the
// name again.
func TestStrangeNames(t *testing.T) {
	s := startRedis(t)
	for _, name := range strange {
		s.run("FLUSHALL")
		s.words("HSET", name, "rate", "10", "interval", "3600000", "type", "0")
		commands := [][]string{{"ls"}, {"audit"}}
		if name != "" {
			commands = append(commands, []string{"show", "--", name}, []string{"try", "--", name}, []string{"watch", "--count", "1", "--", name}, []string{"set", "--", name, "20/1h"}, []string{"reset", "--yes", "--", name},
				[]string{"try", "--policy", "window:5/1h", "--", name}, []string{"show", "--all", "--", name}, []string{"reset", "--yes", "--all", "--", name}, []string{"release", "--policy", "window:5/1h", "--", name},
				[]string{"show", "--", name + "nobody"}, []string{"try", "--", name + "nobody"}, []string{"reset", "--", name}, []string{"show", name}, []string{"ls", "--" + name}, []string{"ls", "-o", name}, []string{name})
		}
		for _, args := range commands {
			for _, format := range []string{"text", "json"} {
				if format == "json" && slices.Contains(args, name+"nobody") {
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
		var list struct{ Limiters []struct{ Name string } }
		require.NoError(t, json.Unmarshal([]byte(tool("ls", "-o", "json", "--redis", s.url()).out), &list))
		require.NotEmpty(t, list.Limiters, "%q", name)
		require.Equal(t, strings.ToValidUTF8(name, "\ufffd"), strings.ReplaceAll(list.Limiters[0].Name, "\ufffd\ufffd", "\ufffd"), "%q", name)
	}
}

// TestEveryChangeSpeaksJSON where that was asked for.
func TestEveryChangeSpeaksJSON(t *testing.T) {
	s := startRedis(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "api", "10/1h"}, `{"limiter":"api","type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0,"set":true}`},
		{[]string{"set", "api", "20/1h", "--keep-alive", "2h"}, `{"limiter":"api","type":"OVERALL","permits":20,"interval_ms":3600000,"keep_alive_ms":7200000,"set":true,"was":{"type":"OVERALL","permits":10,"interval_ms":3600000,"keep_alive_ms":0}}`},
		{[]string{"set", "api", "30/1h", "--if-absent"}, `{"limiter":"api","type":"OVERALL","permits":30,"interval_ms":3600000,"keep_alive_ms":7200000,"set":false}`},
		{[]string{"set", "new", "30/1h", "--if-absent"}, `{"limiter":"new","type":"OVERALL","permits":30,"interval_ms":3600000,"keep_alive_ms":0,"set":true}`},
		{[]string{"release", "api", "-n", "2"}, `{"limiter":"api","released_at_most":2}`},
		{[]string{"reset", "api", "--yes"}, `{"limiter":"api","reset":"OVERALL","taken":0}`},
	} {
		r := tool(append(test.args, "-o", "json", "--redis", s.url())...)
		require.JSONEq(t, test.want, r.out, r.err)
	}
}
