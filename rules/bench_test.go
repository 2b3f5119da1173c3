package rules

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// large is a file of so many rules, each with a path, two keys, two limits and a failure mode of
// its own.
func large(rules int) string {
	var b strings.Builder
	b.WriteString("domain: shop\nrules:\n")
	for i := range rules {
		fmt.Fprintf(&b,
			"  - name: rule-%d\n    match: GET /api/v1/service-%d/{id}\n    key: [ip, \"header:X-Tenant\"]\n    limits:\n", i, i)
		fmt.Fprintf(&b, "      - %d/s\n      - {policy: token_bucket, capacity: 20, rate: 100/m}\n    on_failure: open\n",
			10+i)
	}
	return b.String()
}

// BenchmarkParse reads 10,000 rules.
func BenchmarkParse(b *testing.B) {
	file := []byte(large(10_000))
	for b.Loop() {
		s, err := parse("rules.yaml", file)
		require.NoError(b, err)
		require.Len(b, s.rules, 10_000)
	}
}

// BenchmarkReload reads 10,000 rules again, of which one has changed, or all, while a client sends
// requests over a socket. "p50-ns" is the median of their durations, "worst-ns" the longest.
func BenchmarkReload(b *testing.B) {
	text := large(10_000)
	for name, changed := range map[string]string{
		"one": strings.Replace(text, "5010/s", "7/s", 1),
		"all": strings.ReplaceAll(text, "on_failure: open", "on_failure: closed"),
	} {
		b.Run(name, func(b *testing.B) {
			set := parsed(b, text)
			server := httptest.NewServer(set.Middleware(offline)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer server.Close()
			stop := make(chan struct{})
			took := make(chan []time.Duration)
			go func() {
				var all []time.Duration
				for {
					select {
					case <-stop:
						slices.Sort(all)
						took <- all
						return
					case <-time.After(100 * time.Microsecond):
					}
					begin := time.Now()
					answer, err := server.Client().Get(server.URL + "/other")
					if assert.NoError(b, err) {
						assert.Equal(b, http.StatusOK, answer.StatusCode)
						assert.NoError(b, answer.Body.Close())
					}
					all = append(all, time.Since(begin))
				}
			}()
			versions := [][]byte{[]byte(changed), []byte(text)}
			for i := 0; b.Loop(); i++ {
				s, err := parse("rules.yaml", versions[i%2])
				require.NoError(b, err)
				set.current.Store(s)
			}
			close(stop)
			all := <-took
			require.NotEmpty(b, all)
			b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
			b.ReportMetric(float64(all[len(all)-1]), "worst-ns")
		})
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
			v := parsed(b, files[name]).file()
			r := request("GET http://t900.example.com/api/v1/service-900/7", "X-Tenant", "t900")
			r.RemoteAddr = "10.3.132.7:1"
			if name == "segment" {
				r.URL.Path = "/s900/x"
			}
			ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs("x-tenant", "t900"))
			b.ReportAllocs()
			for b.Loop() {
				var found []match
				if name == "grpc" {
					found = v.grpc.find(ofGRPC(ctx, grpclimit.Call{Method: "/a.B/C"}, &v.address), "/a.B/C", v.all)
				} else {
					path, err := httptarget.ReadURL(r.URL, false)
					require.NoError(b, err)
					found = v.http.find(ofHTTP(r, &v.address), path.Text, v.all)
				}
				require.Len(b, found, 1)
				require.Equal(b, 900, found[0].rule)
			}
		})
	}
}

// BenchmarkPass is what the middleware costs a request that no rule matches.
func BenchmarkPass(b *testing.B) {
	next := new(ok)
	handler := parsed(b, large(10_000)).Middleware(offline)(next)
	r, requests := request("GET /other"), 0
	b.ReportAllocs()
	for b.Loop() {
		requests++
		handler.ServeHTTP(nil, r)
	}
	require.Equal(b, requests, next.served)
}
