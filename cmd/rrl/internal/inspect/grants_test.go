package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecode_AllLayouts_AreRead: and rewritten in the present one.
func TestDecode_AllLayouts_AreRead(t *testing.T) {
	for _, test := range []struct {
		member    string
		permits   int64
		layout    Layout
		rewritten string
	}{
		{"\x03abc\x02\x00\x00\x00", 2, ByteLayout, ""},
		{"\x10abcdefghijklmnop\x00\x00\x01\x00", 65536, ByteLayout, ""},
		{"\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh\x07\x00\x00\x00", 7, LongLayout, "\x08abcdefgh\x07\x00\x00\x00"},
		{"\x3e\x5f\x10\x20\xff\xff\xff\xff", 1<<32 - 1, FloatLayout, "\x04\x3e\x5f\x10\x20\xff\xff\xff\xff"},
		{"\x09abc\x02\x00\x00\x00zz", 0x7a7a0000, NoLayout, ""}, // the last four bytes count, whatever is before them
		{"xyz", -1, NoLayout, ""},
		{"", -1, NoLayout, ""},
	} {
		permits, layout := Decode(test.member)
		require.Equal(t, test.layout, layout, "%q", test.member)
		require.Equal(t, test.permits, permits, "%q", test.member)
		if test.rewritten != "" {
			g := Grant{Permits: permits, Layout: layout, Member: test.member}
			require.Equal(t, test.rewritten, g.Rewritten())
			again, as := Decode(g.Rewritten())
			require.Equal(t, permits, again)
			require.Equal(t, ByteLayout, as)
		}
	}
}
