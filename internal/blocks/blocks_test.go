package blocks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// rules is as files of rules are.
const rules = `# what many share
domain: shop
rules:
  - name: log-in
    match: POST /login/{id}   # one route – für alle
    key: [ip, "header:X-Tenant"]
    limits:
      - 5/m
      - {policy: token_bucket, capacity: 20, rate: 100/m}
    on_failure: open

  - name: search
    limits: 100/s
    shadow: true
`

// shown is a node with all that is read of it, comments apart.
func shown(n *yaml.Node) string {
	var b strings.Builder
	var show func(n *yaml.Node)
	show = func(n *yaml.Node) {
		fmt.Fprintf(&b, "%d:%d %d %d %s %q %q %v (", n.Line, n.Column, n.Kind, n.Style, n.Tag, n.Value, n.Anchor, n.Alias)
		for _, child := range n.Content {
			show(child)
		}
		b.WriteString(")\n")
	}
	show(n)
	return b.String()
}

// alike fails where a text is read otherwise than the library does, and says whether it reads it.
func alike(t require.TestingT, r *Reader, text string) bool {
	got := r.Read(text, 1)
	if got == nil {
		return false
	}
	var documents []yaml.Node
	require.NoError(t, yaml.Load([]byte(text), &documents, yaml.WithAllDocuments()), "%q", text)
	require.Len(t, documents, 1, "%q", text)
	require.Equal(t, shown(documents[0].Content[0]), shown(got), "%q", text)
	return true
}

// TestPlainFilesAreRead.
func TestPlainFilesAreRead(t *testing.T) {
	r := &Reader{}
	for _, text := range []string{
		rules,
		"- a\n- 1\n- 2.5\n- true\n- null\n- 10.0.0.1\n- 10/s\n- 'x y'\n- \"x: # y\"\n",
		"- name: x # why\n\n  # a remark\n  match: {headers: {X-Tenant: t, Y: [a b, 'c']}, methods: [GET, POST]}\n  limits:\n  - 1/s\n  -   rate: 5/m\n      policy: x\n  key: ip",
		"a:\n  b:\n    - c: d\n      e: GET /x/{id}?y=#1\n    -\n      f: g\n",
		"- a:\n  - b\n  c: header:X\n",
	} {
		assert.True(t, alike(t, r, text), text)
	}
}

// TestWhatIsOddIsLeft to the library, or read as that does.
func TestWhatIsOddIsLeft(t *testing.T) {
	r := &Reader{}
	for _, text := range []string{
		"", "\n", "# x", "a", "- ", "-", "a:", "a: ", "- a:", "- a: b\n c: d", "- a: b\n    c", "- a\n b", "- a: b: c", "- a:: b", "- a: b:", "- a: b:\tc",
		"- a:\tb", "-\ta", "- a\t", "- \"a\\n\"", "- 'a''b'", "- \"a\" b", "- \"a\": b", "- a #b\n", "- a#b\n", "- [a", "- [a,]", "- [a]b", "- [a] #b", "- [a]#b", "- []", "- {}",
		"- {a}", "- {a: }", "- {a:b}", "- {a:b: c}", "- [a: b]", "- [a:b]", "- [a:]", "- [a #b]", "- [a, b\n]", "- {a: b, c: [d, {e: f}]}", "- {a: b}: c", "- &a b", "- *a", "- !t a", "- |\n a",
		"- >\n a", "- ?a", "- ? a", "- <<: a", "- 0x1f", "- 1_000", "- 0o7", "- 012", "- 089", "- 1e3", "- 1.", "- .5", "- +1", "- -1", "- 2001-01-01", "- 2001-01-01T00:00:00Z", "- 1:30",
		"- 123456789012345678", "- 1234567890123456789", "- 12345678901234567890", "- 1.2.3", "- 1..", "- " + strings.Repeat("9", 400) + ".0", "- ~", "- yes", "- y: no", "- true: x", "- 1: x", "- null: x", "- 1.5: x", "- 0x1: x",
		"---\n- a", "- a\n---\n- b", "- a\n...\n", "%YAML 1.2\n---\n- a", "\ufeff- a", "- ä", "- a # ä\n- b", "- a # \u2028- b", "- a # \u0085- b", "- a # \xff", "- a # \ufffd", "- a # \ufeff", "- a # 日本 🎈\u00a0\n", "- a # \x01", "- \x7f", "- a\r\n- b\r\n", "- a\r- b", "- a # x\r- b",
		"- - a", "- a\n-b", "- a\nb: c", "a: b\n- c", "a:\n- b\nc: d", "a:\n - b\nc: d", "a:\n- b\n- c: d\n  e: f\ng: h\n", "a:\n  b: c\n d: e", "  - a\n  - b\n", "  - a\n - b\n", " a: b\n c: d\n",
		"- a: b\n  a: c\n", "- a:\n    b\n", "- a:\n\n\n  # x\n    - b\n", "- a: 'b\n  c'\n", "- a: b c  d   # e", "- a: b  \n", "- /x: y", "- a/b.c-d_e: y", "- a b: c", "- a:\n  -\n  - b",
		"- " + strings.Repeat("k", 2000) + ": v", "- " + strings.Repeat("[", 40) + "a" + strings.Repeat("]", 40), "- a: [x, y]: z", "- a: {x: y}\n  b: c", "- a, b", "- a]", "- [a]]", "- {a: b]", "- [a}b]",
		"- a: b # c\n  # d\n   # e\n  f: g", "-   a: b\n    c: d\n", "- a: b\n# c\n- d", "- a: b\n    # c\n  d: e", "- 'a' # b", "- 'a'#b", "- \"\"", "- ''", "- a: ''\n", "- __x: 1", "- _", "- /", "- a: -b", "- a: - b",
		"- a: GET /x:y/", "- a: x:\n", "- a: http://x/ # y", "- a: @x", "- a: `x`", "- a: x`y", "- a: %x", "- a: x %y", "- {a: x, b: x*}", "- {a: *x}", "- [*a]", "- [a*]", "- [-]", "- [- a]", "- [a -b]", "- [a - b]",
		"- [,a]", "- {,a: b}", "- [a,,b]", "- [a , b ]", "- {a : b}", "- { a: b }", "- [ a ]", "- a:  [ a ]  ", "- [[a], {b: c}]", "- [a b: c]", "- [\"a\": b]", "- [\"a\"b]", "- {\"a\": b}", "- {a: \"b\"c}",
	} {
		alike(t, r, text)
	}
}

// TestReadsAsTheLibraryDoes: texts put together by chance.
func TestReadsAsTheLibraryDoes(t *testing.T) {
	r, random, read := &Reader{}, rand.New(rand.NewPCG(3, 4)), 0
	for range 20_000 {
		if alike(t, r, oddText(random)) {
			read++
		}
	}
	assert.Greater(t, read, 2_000)
}

// oddText is blocks by chance, many of them with something in them that stands elsewhere in YAML.
func oddText(random *rand.Rand) string {
	var b strings.Builder
	pick := func(pieces ...string) string { return pieces[random.IntN(len(pieces))] }
	value := func() string {
		return pick("a", "b c", "1", "2.5", "10/s", "x:y", "GET /a/{id}", "[a, b]", "{a: b}", "{a: [b, 'c'], d: 1 2}", "'q'", "\"q: r\"", "null", "10.0.0.1", "true")
	}
	var block func(indent, depth int)
	block = func(indent, depth int) {
		dashes := random.IntN(2) == 0
		for i := range 1 + random.IntN(3) {
			if i > 0 || depth == 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			within := indent
			if dashes {
				spaces := 1 + random.IntN(2)
				b.WriteString("-" + strings.Repeat(" ", spaces))
				within += 1 + spaces
			} else {
				b.WriteString(pick("a:", "X-Y:", "b/c.d:", "true:", "1:"))
			}
			switch {
			case depth == 3 || random.IntN(2) == 0:
				if !dashes {
					b.WriteString(" ")
				}
				b.WriteString(value() + pick("\n", "\n", "\n", " # x\n", "  \n", "\n\n", "\n    # x\n"))
			case dashes && random.IntN(2) == 0:
				block(within, depth+1)
			default:
				within = indent + 1 + random.IntN(4)
				b.WriteString(pick("\n", " # x\n", "\n\n") + strings.Repeat(" ", within))
				block(within, depth+1)
			}
		}
	}
	block(random.IntN(3), 0)
	text := b.String()
	for range random.IntN(3) {
		at := random.IntN(len(text) + 1)
		end := min(at+random.IntN(3), len(text))
		text = text[:at] + pick("", " ", "  ", "\n", ":", ": ", " #", "#", "-", "- ", ",", "[", "]", "{", "}", "'", "\"", "*a", "&a ", "|", ">", "\t", "? ", "!", "%", "1e3", "0", "ä", "\r", "---\n", "...", value()) + text[end:]
	}
	return text
}

// FuzzRead: what is read, is read as the library does.
func FuzzRead(f *testing.F) {
	f.Add(rules)
	random := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		f.Add(oddText(random))
	}
	f.Fuzz(func(t *testing.T, text string) { alike(t, &Reader{}, text) })
}
