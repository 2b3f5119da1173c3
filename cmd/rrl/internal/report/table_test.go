package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
)

func TestTable_WideNames_AreAligned(t *testing.T) {
	var w strings.Builder
	table(&w, 0, []string{"NAME", "KIND"}, [][]string{{"日本語", "x"}, {"plain", "x"}, {"e\u0301te\u0301", "x"}, {"😀", "x"}})
	for line := range strings.Lines(w.String()) {
		at := strings.LastIndexAny(line, "xK")
		require.Equal(t, 8, screen.Width(line[:at]), "%q", w.String())
	}
}
