package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCredible_EightLetters_IsFalse: they fit the oldest layout, but are more likely another
// program's.
func TestCredible_EightLetters_IsFalse(t *testing.T) {
	now := time.Now()
	for member, want := range map[string]bool{
		"user-123": false, "x": false, "\x3e\x5f\x10\x20\x05\x00\x00\x00": true, "\x03abc\x05\x00\x00\x00": true,
	} {
		g := Grant{At: now.UnixMilli(), Member: member}
		g.Permits, g.Layout = Decode(member)
		require.Equal(t, want, g.credible(now), "%q", member)
	}
}
