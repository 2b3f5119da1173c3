package rls_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// BenchmarkLoad reads ten thousand descriptors, as a reload does.
func BenchmarkLoad(b *testing.B) {
	var text strings.Builder
	text.WriteString("domain: many\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text,
			"  - key: tenant\n    value: t%d\n    rate_limit:\n      unit: minute\n      requests_per_unit: %d\n", i, i+1)
	}
	file := filepath.Join(folder(b, text.String()), "0.yaml")
	for b.Loop() {
		rules, err := rls.Load(file, false)
		require.NoError(b, err)
		require.Equal(b, 10_000, rules.Len())
	}
}
