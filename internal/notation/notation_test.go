package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRate_Texts_AreRates(t *testing.T) {
	for text, want := range map[string]struct {
		permits  int64
		interval time.Duration
	}{
		"100/1m": {100, time.Minute}, "5/s": {5, time.Second}, "1/1d": {1, 24 * time.Hour},
		"9007199254740992/1ms": {1 << 53, time.Millisecond},
	} {
		permits, interval, err := ParseRate(text)
		require.NoError(t, err, text)
		require.Equal(t, want.permits, permits)
		require.Equal(t, want.interval, interval)
	}
	for _, text := range []string{"", "100", "/1m", "0/1m", "-1/1m", "1.5/1m", "1/", "1/0s", "1/1us", "1/-1s",
		"9007199254740993/1s", "1/x", "1/99999999999d"} {
		_, _, err := ParseRate(text)
		require.ErrorContains(t, err, "write permits/interval", text)
	}
}

func TestParsePermits_Texts_ArePermits(t *testing.T) {
	permits, err := ParsePermits("capacity is", "20")
	require.NoError(t, err)
	require.Equal(t, int64(20), permits)
	for _, text := range []string{"", "0", "-1", "1.5", "x"} {
		_, err := ParsePermits("capacity is", text)
		require.EqualError(t, err, `capacity is "`+text+`", want a whole number above 0`)
	}
}

func TestFormatDuration_Durations_HaveNoZeroUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 24 * time.Hour: "1d",
		1500 * time.Millisecond: "1.5s", time.Hour + time.Second: "1h0m1s",
	} {
		require.Equal(t, want, FormatDuration(d))
	}
}
