package screen

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

func TestPlot_Shares_AreColumns(t *testing.T) {
	for _, test := range []struct {
		shares        []float64
		width, height int
		want          string
	}{
		{[]float64{0, 0.01, 0.25, 0.5, 0.75, 1.2}, 6, 2, "    ▄█\n ▁▄███"},
		{[]float64{math.NaN(), 0.5, 1}, 5, 1, "   ▄█"}, // it begins at the right, with a gap for what is not known
		{[]float64{0.5, 1}, 1, 1, "█"},                 // the newest
		{nil, 0, 0, ""},
	} {
		require.Equal(t, test.want, ansi.Strip(strings.Join(Plot(test.shares, test.width, test.height), "\n")))
	}
	require.Equal(t, Good.Text("██░░"), Bar(0.5, 4))
	require.Equal(t, Bad.Text("████"), Bar(7, 4))
}

func TestDraw_Lines_AreDrawnOverTheLast(t *testing.T) {
	for noColor, want := range map[string]string{
		"":  "\x1b[H\x1b[31ma\x1b[0m\x1b[1mb\x1b[0mc\x1b[0m\x1b[K\r\nd\x1b[0m\x1b[K\x1b[J",
		"1": "\x1b[Ha\x1b[0m\x1b[1mb\x1b[0mc\x1b[0m\x1b[K\r\nd\x1b[0m\x1b[K\x1b[J",
	} {
		t.Setenv("NO_COLOR", noColor)
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		require.NoError(t, (&Terminal{file}).Draw([]string{Bad.Text("a") + Bold.Text("b") + "c", "d"}))
		require.NoError(t, file.Close())
		text := golden.Text(t, file.Name())
		require.Equal(t, want, text)
	}
}
