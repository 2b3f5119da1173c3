package yamlfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// valuesOf returns the number of values that were converted or merged.
func valuesOf(t *testing.T, text string) int {
	t.Helper()
	var c converter
	_, problem := c.parse([]byte(text))
	require.Nil(t, problem)
	return c.values
}

// TestParse_MergeKeys_CostLinearTime: twice the fields are twice the values.
func TestParse_MergeKeys_CostLinearTime(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: 1, ", i)
		}
		return "{" + b.String() + "}"
	}
	for name, file := range map[string]func(n int) string{
		"one mapping":  func(n int) string { return fmt.Sprintf("a: &a %s\nb: {<<: *a}\n", fields(n)) },
		"own fields":   func(n int) string { return fmt.Sprintf("a: &a %s\nb:\n  <<: *a\n  c: %s\n", fields(n), fields(n)) },
		"one of many":  func(n int) string { return fmt.Sprintf("a: &a %s\nb: {<<: [*a, *a, *a, *a]}\n", fields(n)) },
		"many of one":  func(n int) string { return "a: &a {k: 1}\nb: {<<: [" + strings.Repeat("*a, ", n) + "]}\n" },
		"many of many": func(n int) string { return fmt.Sprintf("a: &a %s\n", fields(8)) + strings.Repeat("? {<<: *a}\n", n) },
	} {
		small, large := valuesOf(t, file(500)), valuesOf(t, file(1000))
		assert.InDelta(t, 2*small, large, 100, name)
	}
}

// TestParse_Documents_ShareTheBound of values, since each is converted before their number is an
// error.
func TestParse_Documents_ShareTheBound(t *testing.T) {
	document := "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" +
		"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n---\n"
	_, problem := Parse([]byte(strings.Repeat(document, 100)))
	require.NotNil(t, problem)
	assert.Contains(t, problem.Reason, "the file has more than 1048576 values")
}

func TestParse_AliasOfItself_IsAnError(t *testing.T) {
	_, problem := Parse([]byte("a: &a\n- b: *a\n"))
	require.NotNil(t, problem)
	assert.Equal(t, "the file has values more than 1000 deep", problem.Reason)
}
