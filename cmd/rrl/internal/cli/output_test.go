package cli

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/check"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// TestJSONPage_Types_AreTheOutput: docs/json.md has the fields of the JSON of each command, in the notation
// of TypeScript.
func TestJSONPage_Types_AreTheOutput(t *testing.T) {
	page, err := filepath.Abs("../../../../docs/json.md")
	require.NoError(t, err)
	blocks := golden.Blocks(t, page, regexp.MustCompile("(?s)```ts\n.*?```"), func([]string) string {
		var all strings.Builder
		for _, output := range []struct {
			command string
			value   any
		}{
			{"ls", report.List{}}, {"show", report.Limiter{}}, {"watch", watch.Sample{}}, {"try", tried{}}, {"set", setting{}},
			{"release", released{}}, {"reset", wasReset{}}, {"pause", paused{}}, {"audit", report.Audit{}},
			{"check", []check.File{}},
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
