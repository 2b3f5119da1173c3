package cli

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/check"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// TestToolPage_JSON_IsTheOutput: docs/tool.md has the fields of the JSON of each command, in the notation
// of TypeScript.
func TestToolPage_JSON_IsTheOutput(t *testing.T) {
	page, err := filepath.Abs("../../../../docs/tool.md")
	require.NoError(t, err)
	blocks := golden.Blocks(t, page, regexp.MustCompile("(?s)```ts\n.*?```"), func([]string) string {
		var all strings.Builder
		for _, output := range []struct {
			command string
			value   any
		}{
			{"ls", report.List{}}, {"show", report.Limiter{}}, {"watch", watch.Sample{}}, {"try", tried{}}, {"set", setting{}},
			{"release", released{}}, {"reset", wasReset{}}, {"pause", paused{}}, {"audit", report.Audit{}},
			{"rules check", []check.File{}},
		} {
			all.WriteString("// " + output.command + "\n" + shape(reflect.TypeOf(output.value), "") + "\n")
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
	fields := ""
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, optional := strings.CutSuffix(field.Tag.Get("json"), ",omitempty")
		switch {
		case field.Anonymous:
			inner := strings.TrimSuffix(strings.TrimPrefix(shape(field.Type, indent), "{\n"), indent+"}")
			fields += inner
		case name != "" && name != "-":
			if optional {
				name += "?"
			}
			value := shape(field.Type, indent+"  ")
			if field.Type.Kind() == reflect.Pointer && !optional {
				value += " | null"
			}
			fields += indent + "  " + name + ": " + value + "\n"
		}
	}
	return "{\n" + fields + indent + "}"
}
