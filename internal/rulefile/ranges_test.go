package rulefile

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRange_UnmarshalText(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":          "10.0.0.0/8",
		"10.0.0.1":            "10.0.0.1/32",
		"::ffff:10.0.0.1":     "10.0.0.1/32",
		"2001:db8::/32":       "2001:db8::/32",
		"2001:db8::1":         "2001:db8::1/128",
		"::ffff:10.0.0.0/104": "::ffff:10.0.0.0/104",
	} {
		var r Range
		if assert.NoError(t, r.UnmarshalText([]byte(text)), text) {
			assert.Equal(t, want, r.String(), text)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.1/8":        `"10.0.0.1/8" has bits behind its length: did you mean 10.0.0.0/8, or 10.0.0.1/32?`,
		"2001:db8::1/32":    `"2001:db8::1/32" has bits behind its length: did you mean 2001:db8::/32, or 2001:db8::1/128?`,
		"10.0.0.0/33":       `"10.0.0.0/33" is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32`,
		"fe80::1%eth0":      `"fe80::1%eth0" is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32`,
		"":                  `"" is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32`,
		"::ffff:0.0.0.0/95": `"::ffff:0.0.0.0/95" has bits behind its length`,
		"::/0x":             `"::/0x" is no range of addresses`,
	} {
		assert.ErrorContains(t, new(Range).UnmarshalText([]byte(text)), want, text)
	}
}
