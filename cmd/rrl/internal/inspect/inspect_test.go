package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// TestPermitsOf_AnyMember_AsTheLibraryCounts: what fits the format may be another program's, and is then not
// credible.
func TestPermitsOf_AnyMember_AsTheLibraryCounts(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		member  string
		permits int64
		known   bool
	}{
		{"\x03abc\x02\x00\x00\x00", 2, true},
		{"\x10abcdefghijklmnop\x00\x00\x01\x00", 65536, true},
		{"\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh\x07\x00\x00\x00", 7, false}, // of Redisson 3.16
		{"user-123", 0x3332312d, false},
		{"\x09abc\x02\x00\x00\x00zz", 0x7a7a0000, false}, // the last four bytes count, whatever is before them
		{"xyz", -1, false},
		{"", -1, false},
	} {
		permits, known := inside.PermitsOf(test.member)
		require.Equal(t, test.known, known, "%q", test.member)
		require.Equal(t, test.permits, permits, "%q", test.member)
		g := Grant{At: now.UnixMilli(), Permits: permits, Known: known, Member: test.member}
		require.Equal(t, test.known, g.credible(now), "%q", test.member)
		g.At = 17
		require.False(t, g.credible(now))
	}
}

// No library writes a rate of 0.
func TestDecode_Fields_AreReadAsByTheScripts(t *testing.T) {
	for _, test := range []struct {
		fields [4]string
		wrong  []string
	}{
		{[4]string{"5", "1000", "0", "0"}, nil},
		{[4]string{"9007199254740992", "99999999999999999999", "1", "1000"}, nil},
		{[4]string{"0", "1000", "0", "0"}, []string{`the field "rate" is "0"`}},
		{[4]string{"9007199254740993", "x", "2", "01"}, []string{`the field "rate" is "9007199254740993"`,
			`the field "interval" is "x"`, `the field "type" is "2"`, `the field "keepAliveTime" is "01"`}},
	} {
		texts := make([]*string, 4)
		for i := range texts {
			texts[i] = &test.fields[i]
		}
		_, wrong := decode(texts)
		require.Equal(t, test.wrong, wrong)
	}
}
