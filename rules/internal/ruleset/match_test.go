package ruleset

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// isOf reports whether a request meets a condition. An address that is not valid may be in any
// range.
func (c *condition) isOf(r *http.Request, from netip.Addr) bool {
	return (c.host == "" || c.host == httptarget.Host(r.Host)) && c.hasPath(segmentsOf(r.URL.Path)) &&
		c.hasMethod(r.Method) &&
		(c.methods == nil || slices.Contains(c.methods, method(r.Method)) || slices.Contains(c.methods, "GET") &&
			r.Method == "HEAD") &&
		!slices.ContainsFunc(c.headers, func(h header) bool {
			values := r.Header.Values(string(h.name))
			return len(values) == 0 || h.value != "*" && !slices.Contains(values, h.value)
		}) &&
		(c.ranges == nil || !from.IsValid() ||
			slices.ContainsFunc(c.ranges, func(p netip.Prefix) bool { return p.Contains(from) }))
}

// isExact reports whether a request that meets a condition is spelled as the file has it.
func (c *condition) isExact(r *http.Request) bool {
	return (c.host == "" || strings.TrimSuffix(r.Host, ":80") == c.host) &&
		!slices.ContainsFunc(c.headers, func(h header) bool {
			values := r.Header.Values(string(h.name))
			return h.value != "*" && len(values) > 1 || h.value == "*" && slices.Contains(values, "")
		})
}

// TestMatcher_RandomRules_FindsThoseOfTheRequest compares the first rule, and all rules, with a
// check of each rule. The first rule is never one that other rules cover.
func TestMatcher_RandomRules_FindsThoseOfTheRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	network := func() string {
		if random.IntN(3) == 0 {
			return fmt.Sprintf("'2001:db8:%d::/48'", random.IntN(3))
		}
		return pick("10.0.0.0/8", fmt.Sprintf("10.%d.0.0/16", random.IntN(3)),
			fmt.Sprintf("10.%d.%d.0/24", random.IntN(3), random.IntN(3)), "10.1.1.1", "0.0.0.0/0", "'::/0'")
	}
	one := func() string {
		var fields []string
		if random.IntN(3) > 0 {
			path := pick("/", "/a", "/a/", "/a/b", "/a/{$}", "/{x}", "/{x}/b", "/a/{x...}", "/{x}/{y}/", "/b/%61")
			fields = append(fields, "pattern: '"+pick("", "GET ", "POST ")+pick("", "", "h.example", "i.example")+path+"'")
		} else if random.IntN(2) == 0 {
			fields = append(fields, "methods: [GET, PUT]")
		}
		if random.IntN(3) == 0 {
			fields = append(fields,
				"headers: {"+pick("X: '*'", "X: '1'", "X: '2'", "Y: '1'", "X: '*', Y: '1'", "Y: '1', X: '2'")+"}")
		}
		if random.IntN(3) == 0 {
			var all []string
			for range 1 + random.IntN(16) {
				all = append(all, network())
			}
			fields = append(fields, "ranges: ["+strings.Join(all, ", ")+"]")
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	found, unreached := 0, 0
	for range 300 {
		var file strings.Builder
		file.WriteString("match: all\nrules:\n")
		for i := range 1 + random.IntN(12) {
			action := pick("ban: true", "key: all, limits: 1/m")
			fmt.Fprintf(&file, "- {name: r%d, %s, match: [%s, %s]}\n", i, action, one(), one())
		}
		v := parsed(t, file.String())
		covered := make(map[int]bool)
		for i, rule := range v.rules {
			if covered[i] = coveredBy(v.rules[:i], rule) != ""; covered[i] {
				unreached++
			}
		}
		for range 20 {
			r := request(pick("GET", "HEAD", "POST", "PUT") + " http://" + pick("h.example", "H.example:80",
				"j.example") + pick("/", "/a", "/a/", "/a/b", "/b/a", "/a/b/c", "/c"))
			for range random.IntN(3) {
				r.Header.Add(pick("X", "Y"), pick("1", "2", "3", ""))
			}
			var from netip.Addr
			if r.RemoteAddr = "@"; random.IntN(6) > 0 {
				from = netip.MustParseAddr(pick("10.1.1.1", "10.0.2.1", "10.2.0.1", "192.0.2.1", "2001:db8:1::1", "2001:db8:9::1"))
				r.RemoteAddr = netip.AddrPortFrom(from, 99).String()
			}
			type result struct {
				rule           int
				unknown, exact bool
			}
			var want []result
			for i, rule := range v.rules {
				ofRequest := slices.DeleteFunc(slices.Clone(rule.conditions), func(c *condition) bool { return !c.isOf(r, from) })
				if len(ofRequest) > 0 {
					certain := slices.DeleteFunc(slices.Clone(ofRequest), func(c *condition) bool {
						return !from.IsValid() && len(c.ranges) > 0
					})
					exact := slices.ContainsFunc(certain, func(c *condition) bool { return c.isExact(r) })
					if len(certain) > 0 || !rule.limits.ban { // a ban has no failure mode
						want = append(want, result{i, len(certain) == 0, exact})
					}
				}
			}
			for _, all := range []bool{true, false} {
				var got []result
				for _, m := range v.http.find(ofHTTP(r), segmentsOf(r.URL.Path), all) {
					got = append(got, result{m.rule, m.unknown != nil, m.exact})
				}
				require.Equal(t, want, got, "%s%s %s of %v: %v", file.String(), r.Method, r.URL, from, r.Header)
				found += len(got)
				require.False(t, len(got) > 0 && covered[got[0].rule] && from.IsValid(), "%s%s %s", file.String(), r.Method, r.URL)
				if first := slices.IndexFunc(want, func(r result) bool { return r.exact }); first >= 0 {
					want = want[:first+1]
				}
			}
		}
	}
	require.Greater(t, found, 10_000)
	require.Greater(t, unreached, 500)
}

// BenchmarkMatch finds the rule of a request among 1,000.
func BenchmarkMatch(b *testing.B) {
	files := map[string]string{"path": large(1000), "all": "match: all\n" + large(1000)}
	for name, match := range map[string]string{
		"segment": "/s%[1]d/x", "host": "t%[1]d.example.com/", "header": "{headers: {X-Tenant: t%[1]d}}",
		"range": "{ranges: [10.%[2]d.%[3]d.0/24]}", "grpc": "{grpc: '*', headers: {X-Tenant: t%[1]d}}",
	} {
		text := "rules:\n"
		for i := range 1000 {
			text += fmt.Sprintf("  - {name: r%[1]d, match: "+match+", key: all, limits: 1/s}\n", i, i/256, i%256)
		}
		files[name] = text
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.Run(name, func(b *testing.B) {
			v := parsed(b, files[name])
			r := request("GET http://t900.example.com/api/v1/service-900/7", "X-Tenant", "t900")
			r.RemoteAddr = "10.3.132.7:1"
			if name == "segment" {
				r.URL.Path = "/s900/x"
			}
			call := ofHTTP(r)
			call.Method = "/a.B/C"
			b.ReportAllocs()
			for b.Loop() {
				var found []match
				if name == "grpc" {
					found = v.grpc.find(call, segmentsOf("/a.B/C"), v.all)
				} else {
					path, err := httptarget.ReadURL(r.URL, false)
					require.NoError(b, err)
					found = v.http.find(ofHTTP(r), segmentsOf(path.Text), v.all)
				}
				require.Len(b, found, 1)
				require.Equal(b, 900, found[0].rule)
			}
		})
	}
}
