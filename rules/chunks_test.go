package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/target"
)

// plain is rules without what is made for them when they are used.
func plainRules(s *snapshot) []rule {
	all := make([]rule, len(s.rules))
	forget := func(l *limits) *limits {
		return &limits{policies: l.policies, redisson: l.redisson, names: l.names, refuse: l.refuse, pass: l.pass}
	}
	for i, r := range s.rules {
		all[i] = *r
		all[i].line = 0
		all[i].limits = forget(r.limits)
		all[i].overrides = make(map[string]*limits)
		for key, l := range r.overrides {
			all[i].overrides[key] = forget(l)
		}
	}
	return all
}

// TestChunks: a file that is cut gives the same rules as a whole, also where only a part of it is read anew.
func TestChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var before *snapshot
	right := 0
	for round := range 30 {
		text := "domain: d\n# rules:\nrules:  # these\n"
		indent := []string{"", "  ", "    "}[round/10]
		for i := range 40 + random.IntN(40) {
			text += indent + "- name: r" + fmt.Sprint(i) + "\n"
			for range random.IntN(3) {
				text += []string{"\n", "# remark\n", "      # - name: no\n", "   \n"}[random.IntN(4)]
			}
			key := random.IntN(4)
			text += indent + "  key: " + []string{"ip", "[ip,\n" + indent + "      method]", "\"header:X-\\\n" + indent + "      Y\"", "|-\n" + indent + "      method"}[key] + "\n"
			text += indent + "  limits:\n" + indent + "  - 1/s\n" + indent + "  - {rate: 2/m,\n" + indent + "     policy: fixed_window}\n"
			if random.IntN(5) == 0 {
				text += indent + "  overrides:\n" + indent + "  - key: " + []string{"10.0.0.1", "[10.0.0.1,\n" + indent + "      GET]", "x", "GET"}[key] + "\n" + indent + "    ban: true\n"
			}
			if random.IntN(500) == 0 {
				text += indent + "  nam: x\n" // wrong
			}
		}
		text += "match: all\n"
		whole, problem := parseYAML([]byte(text))
		require.Nil(t, problem)
		d := newDecoder("f", whole)
		want := d.snapshot(whole)
		got, ok := inChunks("f", []byte(text), before)
		if len(d.problems) > 0 {
			require.False(t, ok, text)
			continue
		}
		right++
		require.True(t, ok, text)
		require.Greater(t, len(got.chunks), 1)
		require.Equal(t, plainRules(want), plainRules(got))
		require.Equal(t, want.all, got.all)
		require.Equal(t, len(want.settings), len(got.settings))
		before = got
	}
	assert.Greater(t, right, 20)
	assert.Less(t, right, 30)
}

// TestAChangeReadsItsChunkAlone: the rules of the others are the very same, so that the limiters that were opened for them stay too.
func TestAChangeReadsItsChunkAlone(t *testing.T) {
	text := large(1000)
	before, ok := inChunks("f", []byte(text), nil)
	require.True(t, ok)
	after, ok := inChunks("f", []byte(strings.Replace(text, "      - 510/s\n", "      - 7/s\n", 1)), before)
	require.True(t, ok)
	same := 0
	for i := range after.rules {
		if before.rules[i] == after.rules[i] {
			same++
		}
	}
	assert.Greater(t, same, 800)
	assert.Less(t, same, 1000)
	assert.False(t, reflect.DeepEqual(plainRules(before), plainRules(after)))
	// Where what stands around the rules has changed, they may mean something else.
	other, ok := inChunks("f", []byte(strings.Replace(text, "domain: shop", "domain: market", 1)), after)
	require.True(t, ok)
	assert.Equal(t, "market:rule-0", other.rules[0].prefix)
}

// TestRulesKeepNoOlderFile: a rule that stays when the file changes does not hold all of the text that it was read from.
func TestRulesKeepNoOlderFile(t *testing.T) {
	s, ok := inChunks("f", []byte(large(100)), nil)
	require.True(t, ok)
	for text, rules := range s.chunks { // the texts are pieces of the file's one
		begin := uintptr(unsafe.Pointer(unsafe.StringData(text)))
		for _, r := range rules {
			name := uintptr(unsafe.Pointer(unsafe.StringData(r.name)))
			assert.False(t, name >= begin && name < begin+uintptr(len(text)), r.name)
		}
	}
}

// TestOddFilesAreReadAsAWhole.
func TestOddFilesAreReadAsAWhole(t *testing.T) {
	for _, text := range []string{
		"", "rules: []\n", "domain: \"x\nrules:\n  - {name: a, ban: true}\n\"\nrules: []\n",
		"rules:\n  - {name: a, ban: true}\n - {name: b, ban: true}\n",
		"rules:\n  - {name: a, ban: true}\n  b: c\n",
		"rules:\n  - {name: a, ban: true}\n  - {name: a, ban: true}\n",
		"rules:\n  - {name: a, nam: true}\n",
		"rules:\n  - {name: a, ban: true}\n...\n---\nrules: []\n",
		"rules:\n  - &a {name: a, ban: true}\n  - *a\n",
		"{\nrules:\n  - {name: a, ban: true}\n}",
	} {
		_, ok := inChunks("f", []byte(text), nil)
		assert.False(t, ok, text)
	}
	s, err := Parse("f.yaml", []byte("domain: \"x\n  rules:\n  - y\"\nrules:\n- {name: a, ban: true}\n"))
	assert.ErrorContains(t, err, "domain")
	assert.Nil(t, s)
}

// FuzzChunks: whatever a file is, it is the same in chunks, or is not read in chunks.
func FuzzChunks(f *testing.F) {
	f.Add("domain: x\nrules:\n  - name: a\n    ban: true\n\n  - {name: b, key: ip,\n  limits: 1/s}\nmatch: all\n")
	f.Add("rules:\n- name: \"a\n- b\"\n  ban: true\n- name: c\n  key: |\n   ip\n  limits: 1/s\n")
	f.Add("rules:\r\n- name: a\r\n  ban: true\r\n- name: b\r\n  ban: true\r\n...\r\n")
	f.Add("rules:\n  # a\n\t\n  - name: a\n    ban: true\n  - name: b\n    ban: true\n# - x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		got, ok := inChunks("f", []byte(text), nil)
		if !ok {
			return
		}
		want, err := parse("f", []byte(text), nil)
		require.NoError(t, err, "%q", text)
		require.Equal(t, plainRules(want), plainRules(got), "%q", text)
	})
}

// FuzzParse: no file makes Parse panic, and every error says where.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"rules: []", large(2), one("key: ip, limits: 1/s"), `{"rules": [{"name": "a", "ban": true, "match": {"grpc": "/a/b"}}]}`,
		"address: {trusted: [10.0.0.0/8], header: Forwarded, ipv6_bits: 48}\ndefaults: {key: ip, policy: smooth, skip: {paths: [/a/, '/{$}'], ranges: ['::1'], methods: GET}}\nmatch: all\nrules: [{name: a, limits: [5/s, {redisson: q, rate: 2/d}], wait: 1s, on_failure: {local: 0.5}}]",
		"rules: [{name: a, match: ['GET a.b/{x}/{y...}', {headers: {A: '*'}, ranges: 10.0.0.0/8}], key: [path:y, constant:z], limits: {permits: 3, per: 1m, policy: calendar}, overrides: [{key: [a, z], unlimited: true}]}]",
	} {
		f.Add(text, "/a/b?c", "f.yaml")
		f.Add(text, "/%2e/%2F//x", "f.json")
	}
	f.Fuzz(func(t *testing.T, text, target, name string) {
		s, err := Parse(name, []byte(text))
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		// What it gives can be asked.
		v := s.file()
		r := request("GET /")
		r.URL.Path = target
		r.URL.RawPath = target
		for _, step := range v.steps(newOpener(nowhere, httpDoor), r) {
			if step.err == nil {
				_, _ = step.limiter.Take(over, 1)
			}
		}
	})
}

// FuzzPath: a tree finds what its patterns match, in each reading of a path.
func FuzzPath(f *testing.F) {
	f.Add("/a/../b//c/", "/b/{x}/")
	f.Add("a%2Fb", "/{x}/{y...}")
	f.Add("/%6C/", "/l/{$}")
	f.Fuzz(func(t *testing.T, path, text string) {
		readings, err := target.ReadPath(path, true)
		if err != nil {
			return
		}
		p, err := parsePattern(text)
		if err != nil || p.host != "" || p.method != "" {
			return
		}
		var found tree
		found.add(0, &condition{pattern: p})
		readings.All(func(reading string) bool {
			s := search{request: &overHTTP{Request: request("GET /"), address: &httplimit.Address{}}}
			found.find(&s, reading)
			require.Equal(t, p.matches(reading), len(s.found) == 1, "%q %q", reading, text)
			return true
		})
	})
}
