package rulefile

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// scalar returns a value without quotes.
func scalar(tag, value string) *Node { return &Node{Tag: tag, Value: value, Plain: true, Line: 1} }

// mapping returns a mapping of names and values.
func mapping(pairs ...any) *Node {
	n := &Node{Tag: Mapping, Line: 1}
	for i := 0; i < len(pairs); i += 2 {
		n.Content = append(n.Content, scalar(Text, pairs[i].(string)), pairs[i+1].(*Node))
	}
	return n
}

// texts returns the problems of a decoder as texts.
func texts(d *Decoder) (all []string) {
	for _, p := range d.Problems {
		all = append(all, p.Error())
	}
	return all
}

// TestDecoder_Lax_AcceptsYAML11 and refuses the same values in strict files.
func TestDecoder_Lax_AcceptsYAML11(t *testing.T) {
	quoted := scalar(Text, "yes")
	quoted.Plain = false
	boolean := func(d *Decoder, n *Node) any { return d.Boolean(n) }
	number := func(d *Decoder, n *Node) any { return d.Number(n, 0, 100, "a number") }
	text := func(d *Decoder, n *Node) any { text, _ := d.Text(n, "a text"); return text }
	list := func(d *Decoder, n *Node) any { d.List(n, "a list", nil); return 0 }
	for name, tt := range map[string]struct {
		n    *Node
		read func(d *Decoder, n *Node) any
		want any // by a lax decoder; nil for a problem
	}{
		"yes":           {scalar(Text, "Yes"), boolean, true},
		"off":           {scalar(Text, "off"), boolean, false},
		"quoted yes":    {quoted, boolean, nil},
		"hexadecimal":   {scalar(Int, "0x10"), number, int64(16)},
		"underscore":    {scalar(Int, "1_0"), number, int64(10)},
		"above":         {scalar(Int, "0x100"), number, nil},
		"number":        {scalar(Int, "404"), text, "404"},
		"nothing":       {scalar(Null, "~"), text, ""},
		"list, nothing": {scalar(Null, ""), list, 0},
		"a mapping":     {mapping(), text, nil},
	} {
		lax, strict := &Decoder{Root: tt.n, Lax: true}, &Decoder{Root: tt.n}
		got := tt.read(lax, tt.n)
		tt.read(strict, tt.n)
		assert.Len(t, strict.Problems, 1, name)
		if tt.want == nil {
			assert.Len(t, lax.Problems, 1, name)
		} else {
			assert.Equal(t, tt.want, got, name)
			assert.Empty(t, lax.Problems, name)
		}
	}
}

func TestDecoder_LargeText_IsRefused(t *testing.T) {
	d := &Decoder{File: "f"}
	assert.False(t, d.Load(make([]byte, MaxBytes+1), nil))
	assert.Equal(t, []string{"f: it has 16777217 bytes, want at most 16777216 (16 MiB)"}, texts(d))
}

// TestDecoder_FailField_HasThePlaceOfTheValue, or of the mapping that lacks it.
func TestDecoder_FailField_HasThePlaceOfTheValue(t *testing.T) {
	value := scalar(Text, "x")
	value.Line, value.Column = 7, 3
	inner := mapping("a b", value)
	d := &Decoder{File: "f", Root: mapping("list", &Node{Tag: List, Content: []*Node{inner}})}
	d.FailField(inner, "a b", "is wrong")
	d.FailField(inner, "c", "is missing")
	d.FailField(d.Root, "d", "is missing")
	assert.Equal(t, []string{
		`f:7:3: list[0]["a b"]: is wrong`, "f:1: list[0].c: is missing", "f:1: d: is missing",
	}, texts(d))
}

// TestDecoder_Policy_ReadsEachPolicy, with all its fields, as the notation of rrl, and refuses fields of others.
func TestDecoder_Policy_ReadsEachPolicy(t *testing.T) {
	values := map[policy.FieldType]*Node{
		policy.Bool: scalar(Bool, "true"), policy.Count: scalar(Int, "5"),
		policy.Duration: scalar(Text, "2s"), policy.Location: scalar(Text, "Europe/Berlin"),
	}
	policytest.Register(t)
	fieldsOf := func(kind policy.Kind[any]) PolicyFields {
		own := make(PolicyFields)
		var nested []any
		for _, field := range kind.Fields {
			own[field.Name] = values[field.Type]
			nested = append(nested, field.Name, values[field.Type])
		}
		if kind.Nested {
			return PolicyFields{kind.Name: mapping(nested...)}
		}
		return own
	}
	all := make(PolicyFields)
	for _, kind := range policy.Kinds() {
		maps.Copy(all, fieldsOf(kind))
	}
	for _, kind := range policy.Kinds() {
		rate, text, separator := policy.Rate{Permits: 5, Interval: time.Second, Unit: int(limit.Day)}, kind.Name+":5/s", ","
		switch {
		case kind.NoRate:
			text, separator = kind.Name, ":"
		case kind.Unit:
			text = kind.Name + ":5/day"
		}
		own := fieldsOf(kind)
		for _, field := range kind.Fields {
			text, separator = text+separator+field.Name+"="+values[field.Type].Value, ","
		}
		n := mapping()
		d := &Decoder{Root: n}
		if kind.Name == "incomplete" { // no policy of package limit
			assert.Nil(t, d.Policy(n, kind, rate, own))
			assert.ErrorContains(t, d.Problems[0], "incomplete describes no local share")
			continue
		}
		want, err := policy.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, d.Policy(n, kind, rate, own), text)
		assert.Empty(t, texts(d), text)
		assert.Nil(t, d.Policy(n, kind, rate, all), text)
		assert.Len(t, d.Problems, len(all)-len(own), text)
	}
}
