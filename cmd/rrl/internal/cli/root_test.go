package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestErrors_BadInput_HaveAdvice: with the problem, the place and the advice, and exit code 2.
func TestErrors_BadInput_HaveAdvice(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	locked := startRedis(t)
	locked.run("ACL SETUSER alice on >secret ~* +@all", "CONFIG SET requirepass hidden")
	replica := startRedis(t)
	host, port, _ := net.SplitHostPort(s.addr)
	replica.run("REPLICAOF "+host+" "+port, "CONFIG SET replica-serve-stale-data yes")
	unused := redistest.Unused(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	defer mute.Close()
	file := written(t, "secret", "wrong\n")

	at := func(url string, args ...string) []string { return append(args, "--redis", url) }
	for _, test := range []struct {
		args []string
		want []string
	}{
		{at("redis://"+unused, "ls"), []string{unused, "connection refused", "start it", "rrl demo"}},
		{at("redis://"+mute.Addr().String(), "ls", "--timeout", "300ms"),
			[]string{mute.Addr().String(), "does not answer in time", "--timeout"}},
		{at("redis://no-such-host.invalid:1", "ls"), []string{"no-such-host.invalid", "check --redis"}},
		{at("redis://alice:topsecret@"+locked.addr, "ls"),
			[]string{locked.addr, `user "alice"`, "wrong name or password", "--password-file"}},
		{at("redis://"+locked.addr, "ls"), []string{locked.addr, "requires a password", "--password-file"}},
		{at("redis://alice@"+locked.addr, "ls", "--password-file", file), []string{locked.addr, "wrong name or password"}},
		{at("redis://"+locked.addr, "ls", "--password-file", file+"x"), []string{"--password-file", "no such file"}},
		{at("redis://"+s.addr, "ls", "--tls-ca", file), []string{"rediss://"}},
		{at("rediss://"+s.addr, "ls", "--tls-ca", file), []string{"has no PEM certificate"}},
		{at("rediss://"+s.addr, "ls", "--tls-cert", file), []string{"go together"}},
		{at("http://alice:topsecret@x", "ls"), []string{"rediss:// (TLS)"}},
		{at("redis://"+s.addr+"/99", "ls"), []string{s.addr, "DB index"}},
		{at("redis://"+replica.addr, "set", "x", "1/s"), []string{replica.addr, "is a replica", "name its master"}},
		{at("redis://"+replica.addr, "audit", "--fix"), []string{"is a replica"}},
		{at(s.url(), "show", "missing"), []string{`there is no limiter "missing"`, "rrl ls"}},
		{at(s.url(), "try", "missing"), []string{`"missing" has no rate`, "rrl set"}},
		{at(s.url(), "try", "corrupt"), []string{`field "rate"`, `"many"`, "rrl show"}},
		// rrl audit skips it: it may not be a limiter
		{at(s.url(), "try", "other"), []string{`field "rate"`, `"0.5"`, "rrl show"}},
		{at(s.url(), "try", "paid-api", "--wait", "-1s"), []string{"--wait -1s", "0 or more"}},
		{at(s.url(), "ls", "--max", "-1"), []string{"--max -1", "0 means all"}},
		{at(s.url(), "audit", "--max", "-1"), []string{"--max -1", "0 means all"}},
		{at(s.url(), "try", "paid-api", "-n", "101"), []string{"101 requested", "at most 100 can be granted"}},
		{at(s.url(), "try", "{t}:tenants"), []string{"PER_CLIENT", "--client ID"}},
		{at(s.url(), "set", "paid-api", "5"), []string{`"5" is no rate`, "100/minute"}},
		{at(s.url(), "set", "paid-api"), []string{"accepts 2 arg(s), received 1"}},
		{at(s.url(), "set", "paid-api", "5/1m", "--forget"), []string{"--yes"}},
		{at(s.url(), "set", "paid-api", "5/1m", "--type", "per-client"), []string{"--yes"}},
		{at(s.url(), "set", "{t}:tenants", "5/1m", "--forget"), []string{"--yes"}},
		{at(s.url(), "reset", "paid-api"), []string{"--yes"}},
		{at(s.url(), "reset", "missing"), []string{"nothing to reset"}},
		{at(s.url(), "watch"), []string{"requires at least 1 arg(s)"}},
		{at(s.url(), "watch", "x", "--every", "1ms"), []string{"at least 50ms"}},
		{at(s.url(), "watch", "paid-api", "", "--count", "1"), []string{"names of limiters", "not an empty one"}},
		{at(s.url(), "ls", "a", "b"), []string{"accepts at most 1 arg(s), received 2"}},
		{at(s.url(), "ls", "-o", "xml"), []string{"want text or json"}},
		{at(s.url(), "ls", "--timeout", "0s"), []string{"above 0"}},
		{[]string{"sho"}, []string{`unknown command "sho" for "rrl"`, "Did you mean this?\n\tshow"}},
		{[]string{"rules", "chek"}, []string{`unknown command "chek" for "rrl rules"`}},
		// Arguments are checked before the connection.
		{at("redis://127.0.0.1:1", "try", "x", "--policy", "window"),
			[]string{"is not a policy", "fixed_window:100/1m[,aligned]"}},
		{at("redis://127.0.0.1:1", "try", "x", "--client", "x"), []string{"want a UUID"}},
		{at("redis://127.0.0.1:1", "set", "x", "1/s", "--type", "all"), []string{"want overall or per-client"}},
		{at("redis://127.0.0.1:1", "set", "x", "0/s"), []string{"want at least 1 permit"}},
		{at("redis://127.0.0.1:1", "set", "x", "1/1m", "--keep-alive", "1s"),
			[]string{"keep-alive is 1s", "at least the interval"}},
		{at("redis://127.0.0.1:1", "try", "x", "-n", "0"), []string{"--permits 0: want 1 to 4294967295"}},
		{at("redis://127.0.0.1:1", "release", "x", "-n", "4294967296"), []string{"want 1 to 4294967295"}},
		{[]string{"demo", "x"}, []string{`unknown command "x" for "rrl demo"`}},
		{[]string{"rules", "check"}, []string{"requires at least 1 arg(s)"}},
		{[]string{"show", ""}, []string{"not an empty one"}},
		{[]string{"show", "a", "b"}, []string{"accepts 1 arg(s), received 2"}},
	} {
		r := fails(t, test.args, test.want...)
		require.True(t, strings.HasPrefix(r.err, "rrl: "), r.err)
		require.NotContains(t, r.err, "secret@", "a password is shown: %q", test.args)
		require.NotContains(t, r.err, "topsecret", "a password is shown: %q", test.args)
	}
	require.NotContains(t, s.on("show", "paid-api"), "60s", "something was changed")
	require.Contains(t, s.on("show", "paid-api"), "100 in 1h", "something was changed")

	// A replica can be read, and says that it is one.
	require.Contains(t, ends(t, exitDone, "ls", "--redis", replica.url()).err, "is a replica: the output may be stale")
}

// closed is an output whose reader is gone.
type closed struct{ io.Writer }

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestOutput_Closed_EndsWithoutAMessage: a closed pipe is no error.
func TestOutput_Closed_EndsWithoutAMessage(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	for _, args := range [][]string{{"ls"}, {"show", "paid-api", "-o", "json"}, {"watch", "paid-api"}, {"audit"}} {
		var failed strings.Builder
		a := &app{out: closed{}, err: &failed}
		require.Equal(t, exitError, a.run(context.Background(), append(args, "--redis", s.url())), args)
		require.Empty(t, failed.String())
	}
}

// The help of each command fits into a terminal of 100 columns.
func TestHelp_Commands_FitInto100Columns(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		args := strings.Fields(cmd.CommandPath())[1:]
		for line := range strings.Lines(tool(append(args, "--help")...).out) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(new(app).root())
}

// TestJSONPage_Types_AreTheOutput: docs/tool.md has the fields of the JSON of each command, in the notation
// of TypeScript.
func TestJSONPage_Types_AreTheOutput(t *testing.T) {
	page, err := filepath.Abs("../../../../docs/tool.md")
	require.NoError(t, err)
	blocks := golden.Blocks(t, page, regexp.MustCompile("(?s)```ts\n.*?```"), func([]string) string {
		var all strings.Builder
		for _, output := range []struct {
			command string
			value   any
		}{
			{"ls", report.List{}}, {"show", report.Limiter{}}, {"watch", watch.Sample{}}, {"try", tryResult{}},
			{"set", setting{}},
			{"release", releaseResult{}}, {"reset", resetResult{}}, {"pause", pauseResult{}}, {"audit", report.Audit{}},
			{"check", []checkedFile{}},
		} {
			all.WriteString("type " + output.command + " = " + shape(reflect.TypeOf(output.value), "") + "\n")
		}
		return "```ts\n" + all.String() + "```"
	})
	require.Equal(t, 1, blocks)
}

// shape formats the JSON of a type.
func shape(typ reflect.Type, indent string) string {
	switch {
	case typ.Kind() == reflect.Pointer:
		return shape(typ.Elem(), indent)
	case typ.Kind() == reflect.Slice:
		return shape(typ.Elem(), indent) + "[]"
	case typ.Kind() == reflect.Bool:
		return "boolean"
	case typ.Kind() == reflect.String, typ.String() == "time.Time":
		return "string"
	case typ.Kind() != reflect.Struct:
		return "number"
	}
	lines := fields(typ, indent+"  ")
	if line := strings.TrimSpace(lines); !strings.Contains(line, "\n") {
		return "{" + line + "}"
	}
	return "{\n" + lines + indent + "}"
}

// fields formats the fields of a type, as many in a line as fit.
func fields(typ reflect.Type, indent string) string {
	lines, line := "", ""
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Anonymous {
			lines += fields(field.Type, indent)
			continue
		}
		name, optional := strings.CutSuffix(field.Tag.Get("json"), ",omitempty")
		if name == "" || name == "-" {
			continue
		}
		value := shape(field.Type, indent)
		if optional {
			name += "?"
		} else if field.Type.Kind() == reflect.Pointer {
			value += " | null"
		}
		one := name + ": " + value
		first, _, nested := strings.Cut(one, "\n")
		if line != "" && len(indent+line+", "+first) > 120 {
			lines, line = lines+indent+line+"\n", ""
		}
		if line != "" {
			line += ", "
		}
		line += one
		if nested {
			lines, line = lines+indent+line+"\n", ""
		}
	}
	if line != "" {
		lines += indent + line + "\n"
	}
	return lines
}

// strange are names that terminals, shells and programs misunderstand.
var strange = []string{
	"-x", "--", "-\x1b[31mred", "a\nb", "a\rb", "a\tb", "\x1b]0;title\x07", "\u009b31m", "\u202eabc", "\x7f", "a\u2028b",
	"nul\x00nul", "\xff", "\xff\xfe", "\xc3", "\ufffd", "*", "[a-z]?", `back\slash`, `"quoted"`,
	"'", "$(reboot)", "{", "}", "{}", "{}x", "{{a}}", "a}b", "{t}:a", "日本語", "👩‍👩‍👧", " ", "", "a:value",
	"a:permits:" + client1, "{a}:window:1000", "U+FFFD \ufffd", "\u200b",
}

// TestNames_ControlCharacters_AreEscaped: in any output. Programs can read the JSON, and what they find there is
// accepted as an argument.
func TestNames_ControlCharacters_AreEscaped(t *testing.T) {
	s := startRedis(t)
	for _, name := range strange {
		s.run("FLUSHALL")
		s.words("HSET", name, "rate", "10", "interval", "3600000", "type", "0")
		var list struct{ Limiters []struct{ Name string } }
		require.NoError(t, json.Unmarshal([]byte(s.on("ls", "-o", "json")), &list))
		require.NotEmpty(t, list.Limiters, "%q", name)
		require.Equal(t, name, names.Unquote(list.Limiters[0].Name))
		commands := [][]string{{"ls"}, {"audit"}}
		if name != "" {
			arg := list.Limiters[0].Name
			require.Contains(t, s.on("show", "-o", "json", "--", arg), `"permits":10,`)
			commands = append(commands, []string{"show", "--", arg}, []string{"try", "--", arg},
				[]string{"watch", "--count", "1", "--", arg}, []string{"set", "--", arg, "20/1h"},
				[]string{"reset", "--yes", "--", arg}, []string{"try", "--policy", "fixed_window:5/1h", "--", arg},
				[]string{"release", "--policy", "fixed_window:5/1h", "--", arg}, []string{"show", "--all", "--", arg},
				[]string{"show", "--", name + "missing"}, []string{"reset", "--", arg}, []string{"ls", "--" + name},
				[]string{"ls", "-o", name}, []string{name})
		}
		for _, args := range commands {
			for _, format := range []string{"text", "json"} {
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
	}
}
