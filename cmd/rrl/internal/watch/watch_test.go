package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// views is a view on three limiters and one that is missing.
func view() *View {
	v := &View{Where: "localhost:6379"}
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range int64(30) {
		granted := 3 * i
		now := begin.Add(time.Duration(i) * time.Second)
		v.Add([]Sample{
			{Time: now, Name: "paid-api", Kind: "OVERALL 100/1m", Limit: 100, Taken: number(min(100, 4*i)), Granted: &granted,
				id: "paid-api"},
			{Time: now, Name: "tenants", Kind: "PER_CLIENT 20/1s", Limit: 20, Taken: number(12), id: "tenants",
				Clients: []Client{{"5f0c9a52-7d1e-4b7a-9a5e-0d6a1c2b3e01", 12}, {"a83d4e17-22b0-4f63-8c11-7be09d5f6a02", 3}}},
			{Time: now, Name: "user 7", Kind: "fixed_window/1m", Taken: number(i % 5), id: "user 7 fixed_window/1m"},
			{Time: now, Name: "gone", Kind: "no limiter", Wrong: "Redis has no state of this name", id: "gone"},
		})
	}
	return v
}

func TestLines_Sizes_AreGolden(t *testing.T) {
	require.Equal(t, strings.TrimPrefix(`
12:00:29  localhost:6379
paid-api  OVERALL 100/1m
  100 │                                     ▁▂▂▃▄▄▅▅▆▇▇█████
    0 │                        ▁▁▂▃▃▄▄▅▆▆▇██████████████████
taken 100 of 100  free 0  +87 granted

tenants  PER_CLIENT 20/1s
   20 │                       ▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂
    0 │                       ██████████████████████████████
taken 12 of 20  free 8  2 clients

"user 7"  fixed_window/1m
    5 │                          ▁▄   ▁▄   ▁▄   ▁▄   ▁▄   ▁▄
    0 │                        ▃▆██ ▃▆██ ▃▆██ ▃▆██ ▃▆██ ▃▆██
taken 4

+1 more in a higher window. Ctrl-C quits. Waiting callers a…
`, "\n"), drawn(view(), 60, 17))
}

// TestLines_AnySize_Fits: down to nothing.
func TestLines_AnySize_Fits(t *testing.T) {
	v := view()
	for _, width := range []int{0, 1, 2, 3, 7, 8, 13, 20, 21, 30, 47, 48, 49, 80, 83, 84, 85, 200} {
		for height := range 40 {
			lines := v.Lines(width, height)
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), width, "%dx%d", width, height)
			}
		}
	}
	require.Equal(t, strings.TrimPrefix(`
12:00:29  localhost…
paid-api  OVERALL 1…
▃▄▄▄▄▅▅▅▆▆▆▇▇▇██████
taken 100 of 100  f…

tenants  PER_CLIENT…
▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂
████████████████████
taken 12 of 20  fre…

+2 more in a higher…
`, "\n"), drawn(v, 20, 11))
}

// drawn returns the lines without styles.
func drawn(v *View, width, height int) string {
	var text strings.Builder
	for _, line := range v.Lines(width, height) {
		text.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
	}
	return text.String()
}

// TestView_VanishedPolicy_ShowsNothingTaken: and a new limiter replaces its absence.
func TestView_VanishedPolicy_ShowsNothingTaken(t *testing.T) {
	v := view()
	now := v.last.Add(time.Second)
	v.Add([]Sample{{Time: now, Name: "gone", Kind: "sliding_log/1s", Limit: 5, Taken: number(2),
		id: "gone sliding_log/1s"}})
	require.Len(t, v.series, 4)
	require.Equal(t, "sliding_log/1s", v.series[3].sample.Kind)
	require.Zero(t, *v.series[2].sample.Taken)
	require.Len(t, v.series[2].taken, 31)
}

func number(n int64) *int64 { return &n }
