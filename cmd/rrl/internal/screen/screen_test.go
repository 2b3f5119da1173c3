package screen

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlot_Shares_AreColumns(t *testing.T) {
	text := func(lines []Line) string { return Frame(lines).String() }
	require.Equal(t, ""+
		"    ▄█\n"+
		" ▁▄███\n", text(Plot([]float64{0, 0.01, 0.25, 0.5, 0.75, 1.2}, 6, 2)))
	require.Equal(t, "   ▄█\n", text(Plot([]float64{math.NaN(), 0.5, 1}, 5, 1)),
		"it begins at the right, with a gap for what is not known")
	require.Equal(t, "█\n", text(Plot([]float64{0.5, 1}, 1, 1)), "the newest")
	require.Empty(t, text(Plot(nil, 0, 0)))
	require.Equal(t, Span{"██░░", Good}, Bar(0.5, 4))
	require.Equal(t, Span{"████", Bad}, Bar(7, 4))
}

func TestCut_LongLines_HaveAnEllipsis(t *testing.T) {
	f := Frame{{{"abc", Bold}, {"def", Dim}}, Text("日本語", Plain), Text("x", Plain)}
	require.Equal(t, "abcd…\n日本…\n", f.Cut(5, 2).String())
	require.Equal(t, "abcdef\n日本語\nx\n", f.Cut(6, 9).String())
	for width := range 8 {
		for _, line := range f.Cut(width, 3) {
			require.LessOrEqual(t, line.width(), width)
		}
	}
	require.Empty(t, f.Cut(5, 0))
	require.Empty(t, f.Cut(5, -1))
}

// A terminal gives two columns to wide characters and none to those that combine with the one before.
func TestWidth_WideAndCombiningCharacters_CountAsColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "日本語": 6, "ｆｕｌｌ": 8, "한국": 4, "😀": 2, "⌚✅⭐": 6,
		"e\u0301": 1, "é": 1, "Ж": 1, "█▁": 2, "…": 1, "─": 1,
	} {
		require.Equal(t, want, Width(text), "%q", text)
	}
}

func TestANSI_Frame_IsDrawnOverTheLast(t *testing.T) {
	f := Frame{{{"a", Bad}, {"b", Bold}, {"c", Plain}}, Text("d", Good)}
	require.Equal(t, "\x1b[H\x1b[31ma\x1b[0m\x1b[1mb\x1b[0mc\x1b[K\r\n\x1b[32md\x1b[0m\x1b[K\x1b[J", f.ANSI(true))
	require.Equal(t, "\x1b[Ha\x1b[1mb\x1b[0mc\x1b[K\r\nd\x1b[K\x1b[J", f.ANSI(false))
}
