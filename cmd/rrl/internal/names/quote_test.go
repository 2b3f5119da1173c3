package names

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

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
