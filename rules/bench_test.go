package rules

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
				s, err := Parse("rules.yaml", versions[i%2])
				require.NoError(b, err)
				set.inside().Replace(s.inside().File())
			}
			close(stop)
			all := <-took
			require.NotEmpty(b, all)
			b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
			b.ReportMetric(float64(all[len(all)-1]), "worst-ns")
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
