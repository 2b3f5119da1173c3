package identity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestName_AnyKey_IsSafeAndUnique(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.1":              "web:192.0.2.1",
		"2001:db8::/64":          "web:2001:db8::/64",
		"{a}":                    "web:%7Ba%7D",
		"100%":                   "web:100%25",
		"a b\x00é":               "web:a%20b%00%C3%A9",
		strings.Repeat("x", 128): "web:" + strings.Repeat("x", 128),
		strings.Repeat("x", 129): "web:%sha256:",
		strings.Repeat("{", 43):  "web:%sha256:",
		"%sha256:0b6b8c0e9f":     "web:%25sha256:0b6b8c0e9f",
	} {
		if want == "web:%sha256:" { // and what it is
			assert.Regexp(t, "^web:%sha256:[0-9a-f]{64}$", Name("web", key))
			continue
		}
		assert.Equal(t, want, Name("web", key))
	}
}

// FuzzNames checks that different keys have different names, without braces.
func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Add("a|b", `a\|b`)
	f.Add("{", "%7B")
	f.Add(strings.Repeat("x", 129), "%sha256:")
	f.Fuzz(func(t *testing.T, a, b string) {
		if (Name("web", a) == Name("web", b)) != (a == b) {
			t.Errorf("%q and %q are named %q and %q", a, b, Name("web", a), Name("web", b))
		}
		if name := Name("web", a); strings.ContainsAny(name, "{} \n\x00") || len(name) > len("web:%sha256:")+128 {
			t.Errorf("%q is named %q", a, name)
		}
		if Join(a, b) == Join(b, a) && a != b {
			t.Errorf("%q and %q are joined the same both ways", a, b)
		}
		if Join(a+"|"+b, "c") == Join(a, b+"|c") {
			t.Errorf("%q and %q run into each other", a, b)
		}
	})
}
