package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDecode_AllLayouts_AreRead: and rewritten in the present one. What fits a layout may be another
// program's, and is then not credible.
func TestDecode_AllLayouts_AreRead(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		member    string
		permits   int64
		layout    Layout
		rewritten string
		credible  bool
	}{
		{"\x03abc\x02\x00\x00\x00", 2, ByteLayout, "", true},
		{"\x10abcdefghijklmnop\x00\x00\x01\x00", 65536, ByteLayout, "", true},
		{"\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh\x07\x00\x00\x00", 7, LongLayout, "\x08abcdefgh\x07\x00\x00\x00", true},
		{"\x3e\x5f\x10\x20\x05\x00\x00\x00", 5, FloatLayout, "\x04\x3e\x5f\x10\x20\x05\x00\x00\x00", true},
		{"\x3e\x5f\x10\x20\xff\xff\xff\xff", 1<<32 - 1, FloatLayout, "\x04\x3e\x5f\x10\x20\xff\xff\xff\xff", false},
		{"user-123", 0x3332312d, FloatLayout, "\x04user-123", false},
		{"\x09abc\x02\x00\x00\x00zz", 0x7a7a0000, NoLayout, "", false}, // the last four bytes count, whatever is before them
		{"xyz", -1, NoLayout, "", false},
		{"", -1, NoLayout, "", false},
	} {
		permits, layout := Decode(test.member)
		require.Equal(t, test.layout, layout, "%q", test.member)
		require.Equal(t, test.permits, permits, "%q", test.member)
		g := Grant{At: now.UnixMilli(), Permits: permits, Layout: layout, Member: test.member}
		require.Equal(t, test.credible, g.credible(now), "%q", test.member)
		if test.rewritten != "" {
			require.Equal(t, test.rewritten, g.Rewritten())
			again, as := Decode(g.Rewritten())
			require.Equal(t, permits, again)
			require.Equal(t, ByteLayout, as)
		}
	}
}
