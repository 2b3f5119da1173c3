package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// BenchmarkParse reads 10,000 rules.
func BenchmarkParse(b *testing.B) {
	file := []byte(large(10_000))
	for b.Loop() {
		s, problems := Parse("rules.yaml", file)
		require.Empty(b, problems)
		require.Len(b, s.rules, 10_000)
	}
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
