package report

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

func TestTable_WideNames_AreAligned(t *testing.T) {
	var w strings.Builder
	rows := [][]string{{"日本語", "x"}, {"plain", "x"}, {"e\u0301te\u0301", "x"}, {"😀", "x"}}
	table(&w, 0, []string{"NAME", "KIND"}, rows)
	for line := range strings.Lines(w.String()) {
		at := strings.LastIndexAny(line, "xK")
		require.Equal(t, 8, ansi.StringWidth(line[:at]), "%q", w.String())
	}
}

func TestTable_LongName_DoesNotWidenOtherRows(t *testing.T) {
	var w strings.Builder
	long := strings.Repeat("n", 1<<16)
	table(&w, 0, []string{"NAME", "KIND"}, [][]string{{long, "x"}, {"plain", "x"}})
	lines := strings.Split(w.String(), "\n")
	require.Equal(t, long+"  x", lines[1])
	require.Equal(t, "plain"+strings.Repeat(" ", widest-5)+"  x", lines[2])
}
