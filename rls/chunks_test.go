package rls

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// long is a file that is read in chunks, of descriptors as they come.
func long(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString("domain: many # of them\nhttp:\n  requests:\n    - descriptor: [{key: path, from: path}]\ndescriptors:\n\n")
	for i := 0; b.Len() < smallest; i++ {
		b.WriteString([]string{"", "", "  # a remark\n", "\n"}[random.IntN(4)])
		fmt.Fprintf(&b, "  - key: tenant\n    value: t%d\n", i)
		switch random.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "    rate_limit:\n      unit: minute\n      requests_per_unit: %d\n", i)
		case 1:
			fmt.Fprintf(&b, "    limits: [{unit: second, requests_per_unit: 5}, {per: 90s, requests_per_unit: %d, policy: sliding_log}]\n    shadow_mode: true\n", 1+i)
		case 2:
			fmt.Fprintf(&b, "    descriptors:\n    - key: user\n      rate_limit: {unit: hour, requests_per_unit: %d, name: 'n %d'}\n", i, i)
		}
	}
	return b.String() + "slot_by: tenant\n"
}

// TestChunksAreAsTheWhole: a large file means what it means when it is read as one, lines and all.
func TestChunksAreAsTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 5 {
		text := []byte(long(random))
		got := inChunks("f", text)
		require.NotNil(t, got)
		r := &reader{file: "f"}
		want := r.domain(r.open(text))
		require.Empty(t, r.errs)
		require.Equal(t, want, got)
	}
}

// TestWhatIsOddIsReadAsAWhole, which tells where it is wrong.
func TestWhatIsOddIsReadAsAWhole(t *testing.T) {
	text := long(rand.New(rand.NewPCG(7, 8)))
	for name, edit := range map[string]func(string) string{
		"an anchor":           func(s string) string { return strings.Replace(s, "value: t9\n", "value: &a t9\n", 1) },
		"a wrong field":       func(s string) string { return strings.Replace(s, "value: t9\n", "valu: t9\n", 1) },
		"a descriptor twice":  func(s string) string { return strings.Replace(s, "value: t9\n", "value: t8\n", 1) },
		"a list twice":        func(s string) string { return s + "descriptors:\n  - {key: a}\n" },
		"in braces":           func(s string) string { return "{\n" + s + "}\n" },
		"a wrong head":        func(s string) string { return s + "slot: x\n" },
		"two documents":       func(s string) string { return s + "---\ndomain: y\n" },
		"too many bytes":      func(s string) string { return strings.Replace(s, "\n\n", strings.Repeat("\n", mostBytes), 1) },
		"within another text": func(s string) string { return "domain: x\nslot_by: \"\n" + s + "\"\n" },
	} {
		odd := edit(text)
		require.NotEqual(t, text, odd, name)
		assert.Nil(t, inChunks("f", []byte(odd)), name)
		d, errs := parse("f", []byte(odd))
		if name == "an anchor" || name == "within another text" {
			assert.Empty(t, errs, name)
			assert.NotNil(t, d, name)
		} else {
			assert.NotEmpty(t, errs, name)
		}
	}
	assert.Nil(t, inChunks("f", []byte("domain: x\ndescriptors:\n  - {key: a}\n")), "a small one")
}

// TestNobodyKeepsAnOlderFile: limiters that were opened outlive a reload, and series all of them; the text that their rules were read
// from does not.
func TestNobodyKeepsAnOlderFile(t *testing.T) {
	text := long(rand.New(rand.NewPCG(7, 8))) + "# end\n"
	text = strings.Replace(text, "descriptors:\n\n", "descriptors:\n  - {key: first, rate_limit: {unit: day, requests_per_unit: 1, name: f}}\n", 1)
	text = strings.Replace(text, "slot_by", "  - {key: last, rate_limit: {unit: day, requests_per_unit: 1, name: l, policy: sliding_log}}\nslot_by", 1)
	d := inChunks("f", []byte(text))
	require.NotNil(t, d)
	d.finish()
	var m metrics
	m.adopt(&Rules{order: []*domain{d}})
	first, last := d.rules.exact["first"], d.rules.exact["last"]
	for l := range m.series {
		if l.key1 == first.key {
			assert.NotSame(t, unsafe.StringData(first.key), unsafe.StringData(l.key1))
		}
	}
	begin := weak.Make(unsafe.StringData(first.key))
	limits := last.limits
	runtime.GC()
	assert.Nil(t, begin.Value())
	runtime.KeepAlive(limits)
}
