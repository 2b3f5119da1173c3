package screen

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

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

// TestSVG_OddNames_IsXML: with each frame for its time.
func TestSVG_OddNames_IsXML(t *testing.T) {
	var out bytes.Buffer
	frames := []Frame{{Text("same", Bold), Text("<&\"one", Plain)}, {Text("same", Bold), Text("▁█ two", Bad)},
		{Text("same", Bold)}}
	require.NoError(t, SVG(&out, frames, 20, 2, time.Second))
	for decoder := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, 1, strings.Count(out.String(), ">same<"))
	require.Contains(t, out.String(), "&lt;&amp;&#34;one")
	require.Contains(t, out.String(), `d="M12 44h8v-2h-8zM20 44h8v-16h-8z"`)
	require.Contains(t, out.String(), "animation:f 3.00s")
	require.Contains(t, out.String(), "33.3333%{visibility:hidden}")
	for _, delay := range []string{"-3.00s", "-2.00s", "-1.00s"} {
		require.Contains(t, out.String(), "animation-delay:"+delay)
	}
}
