package notation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRate_Texts_AreRates(t *testing.T) {
	for text, want := range map[string]Per{
		"100/1m": {Interval: time.Minute}, "100/m": {Interval: time.Minute}, "100/minute": {Interval: time.Minute},
		"100 / 30s": {Interval: 30 * time.Second}, "100/1d": {Interval: day}, "100/week": {Interval: 7 * day},
		"100/2w": {Interval: 14 * day}, "100/1h30m": {Interval: 90 * time.Minute}, "100/1ms": {Interval: time.Millisecond},
	} {
		permits, per, err := ParseRate(text, false)
		require.NoError(t, err, text)
		require.Equal(t, int64(100), permits, text)
		require.Equal(t, want, per, text)
	}
	for text, unit := range map[string]int{"100/day": 1, "100/d": 1, "100/week": 2, "100/month": 3, "100/year": 4} {
		_, per, err := ParseRate(text, true)
		require.NoError(t, err, text)
		require.Equal(t, Per{Unit: unit}, per, text)
	}
	for text, want := range map[string]string{
		"": "no rate", "100": "no rate", "/1m": "no rate", "-1/1m": "no rate", "1.5/1m": "no rate",
		"9007199254740993/1s": "too many permits, want at most 2^53, 9007199254740992", "99999999999999999999/s": "too many", "1/": "no unit", "1/x": "no unit", "1/-1s": "no unit", "1/+1s": "no unit",
		"1/0s": "no length of time", "1/1us": "no length of time", "1/99999999999d": "no length of time",
		"1/month": "no fixed length",
	} {
		_, _, err := ParseRate(text, false)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err := ParseRate("1/30s", true)
	require.ErrorContains(t, err, "of the calendar")
	permits, _, err := ParseRate("9007199254740992/s", false)
	require.NoError(t, err)
	require.Equal(t, int64(MaxPermits), permits)
}

func TestFormatDuration_Durations_HaveNoZeroUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 24 * time.Hour: "1d",
		1500 * time.Millisecond: "1.5s", time.Hour + time.Second: "1h0m1s",
	} {
		require.Equal(t, want, FormatDuration(d))
	}
}
