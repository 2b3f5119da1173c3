package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// However long the wrong value is.
func TestParse_LongValue_ErrorIsShort(t *testing.T) {
	long := strings.Repeat("a", 1<<16)
	for _, file := range []string{
		one("key: ip, limits: 1/s, match: '/{" + long + "...}/b'"),
		one("key: ip, limits: 1/s, match: '/{" + long + "}/{" + long + "}'"),
		one("key: path:" + long + ", limits: 1/s"),
		one("key: [ip, constant:" + long + "], limits: 1/s, overrides: [{key: [10.0.0.1, x], ban: true}]"),
		"domain: " + long + "\nrules: []\n", "domain: " + long + "{\nrules: []\n", "rules: *" + long + "\n",
		long + ": x\nrules: []\n",
		`{"` + long + `" 1}`,
	} {
		for _, name := range []string{"f.yaml", "f.json"} {
			_, err := Parse(name, []byte(file))
			if assert.Error(t, err) {
				assert.Less(t, len(err.Error()), 500, rulefile.Cut(200, err.Error()))
			}
		}
	}
}

func TestParse_ManyErrors_ReportsTwentyAtMost(t *testing.T) {
	_, err := Parse("f.yaml", []byte("rules:\n"+strings.Repeat("- {nam: a}\n", 100)))
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), rulefile.MostProblems)
}

// Columns of a large file in one line are counted in bounded time.
func TestParse_LongLine_ErrorIsShort(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"rules": [`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `{"name": "r%d", "ban": true}, `, i)
	}
	b.WriteString(`{"name": "ä", "nam": 1}]}`)
	_, err := Parse("f.json", []byte(b.String()))
	assert.ErrorContains(t, err,
		fmt.Sprintf(`f.json:1:%d: rules[100000].nam: unknown field "nam"`, b.Len()-len(`ä", "nam": 1}]}`)+5))
}

// A small file that expands to a large one is refused at once.
func TestParse_Bombs_AreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	_, err := Parse("f.yaml", []byte(b.String()))
	assert.ErrorContains(t, err, "f.yaml:1:5: a0: the anchor &a0 is not supported")
}
