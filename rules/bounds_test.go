package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

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
	assert.Len(t, strings.Split(err.Error(), "\n"), rulefile.MaxProblems)
}
