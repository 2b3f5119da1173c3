package rulefile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// number is a union for tests: a number, or the text "none".
type number int64

func (v *number) UnmarshalNode(d *Decoder, n *Node) {
	if n.Tag == Text {
		d.OneOf(n, "none")
		return
	}
	*v = number(d.Number(n, 0, 9, "a digit"))
}

func TestFields_TypedFields_AreDecoded(t *testing.T) {
	type shared struct{ Shadow bool }
	var file struct {
		shared
		Name    string
		Longest Duration
		Network Range
		Count   number `file:"n"`
		Raw     *Node
	}
	raw := scalar(Text, "x")
	decode := func(pairs ...any) []string {
		n := mapping(pairs...)
		d := &Decoder{File: "f", Root: n}
		d.Fields(n, &file)
		return texts(d)
	}
	assert.Empty(t, decode("name", scalar(Text, "a"), "longest", scalar(Text, "2s"), "shadow", scalar(Bool, "true"),
		"network", scalar(Text, "10.0.0.0/8"), "n", scalar(Int, "7"), "raw", raw))
	assert.True(t, file.Shadow)
	assert.Equal(t, "a", file.Name)
	assert.Equal(t, Duration(2*time.Second), file.Longest)
	assert.Equal(t, "10.0.0.0/8", file.Network.String())
	assert.Equal(t, number(7), file.Count)
	assert.Same(t, raw, file.Raw)

	assert.Equal(t, []string{
		"f:1: name: the number 1, want a text",
		`f:1: longest: "x" is no length of time, want ` + notation.WantDuration,
		`f:1: network: "10.0.0.1/8" has bits behind its length: did you mean 10.0.0.0/8, or 10.0.0.1/32?`,
		"f:1: n: 10, want a digit",
	}, decode("name", scalar(Int, "1"), "longest", scalar(Text, "x"), "network", scalar(Text, "10.0.0.1/8"),
		"n", scalar(Int, "10")))
	assert.Equal(t, []string{`f:1: nam: unknown field "nam", want longest, n, name, network, raw, shadow`},
		decode("nam", raw))
}

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
