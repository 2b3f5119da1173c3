package limit

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/luanames"
)

var update = flag.Bool("update", false, "write testdata/scripts")

// scriptsOf returns the scripts of a limiter, by call.
func scriptsOf(l *Limiter) map[call]string {
	all := make(map[call]string)
	for c := range fixedArguments {
		whole := c == reserve || c == cancel
		if c == lease && !canLease(l.members) || whole && (len(l.members) > 1 ||
			sections[l.members[0].policy.kind()]["due"] == "") {
			continue
		}
		all[c] = assemble(c, l.members)
	}
	return all
}

// limitersToAssemble are a limiter of each policy, and some of several.
func limitersToAssemble(b *bench) map[string]*Limiter {
	shared := b.client.Limiter("shared")
	all := map[string]*Limiter{
		"redisson":          Join(shared),
		"redisson+redisson": Join(shared, b.client.Limiter("other")),
		"fixedwindow+redisson+tokenbucket": Join(New(b.client, "a", everyPolicy[0]), shared,
			New(b.client, "b", TokenBucket{Capacity: 5, Refill: 1, Interval: ms})),
	}
	for _, p := range everyPolicy {
		l := New(b.client, "name", p)
		require.NoError(b, l.err)
		all[p.kind()] = l
		two := New(b.client, "name", p, FixedWindow{Permits: 9, Interval: 7 * ms})
		require.NoError(b, two.err)
		all[p.kind()+"+fixedwindow"] = two
	}
	return all
}

// TestScripts_Assembled_AreGolden: testdata/scripts shows what Redis runs. Write it with -update.
func TestScripts_Assembled_AreGolden(t *testing.T) {
	for name, l := range limitersToAssemble(newBench(t)) {
		if strings.HasSuffix(name, "+fixedwindow") && name != "tokenbucket+fixedwindow" {
			continue // one script of several policies is enough to read
		}
		var text strings.Builder
		scripts := scriptsOf(l)
		for _, c := range []call{acquire, lease, charge, release, peek, reserve, cancel} {
			if scripts[c] != "" {
				text.WriteString("---- " + string(c) + "\n" + scripts[c] + "\n")
			}
		}
		file := filepath.Join("testdata", "scripts", name+".lua")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), text.String(), name)
	}
}

func TestScripts_Names_AreDeclared(t *testing.T) {
	for name, l := range limitersToAssemble(newBench(t)) {
		for c, text := range scriptsOf(l) {
			used, _ := luanames.Find(text)
			assert.Empty(t, used, "undeclared names in script %s of %s", c, name)
		}
	}
	common := luanames.Declared(source("script"))["head"].Out
	check := func(file, name, body string, declared luanames.Part) {
		used, sets := luanames.Find(body)
		used = slices.DeleteFunc(used, func(n string) bool { return slices.Contains(common, n) })
		assert.ElementsMatch(t, used, declared.In, "in: of %s in %s.lua", name, file)
		assert.Subset(t, append(sets, used...), declared.Out, "out: of %s in %s.lua", name, file)
	}
	for name, declared := range luanames.Declared(source("script")) {
		check("script", name, parts[name], declared)
	}
	for kind := range sections {
		for name, declared := range luanames.Declared(source(kind)) {
			body := sections[kind][name]
			if kind != "redisson" { // whose sections include parts of the root's
				body = sections[kind].Text(name)
			}
			check(kind, name, body, declared)
		}
	}
}
