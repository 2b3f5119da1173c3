package limit

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

// BenchmarkNew is the cost of a limiter for one request: programs open one for each request of a
// user.
func BenchmarkNew(b *testing.B) {
	client := rratelimitertest.New(b).Client
	for name, policies := range map[string][]Policy{
		"one": {TokenBucket{20, 5, time.Second}},
		"two": {FixedWindow{5, time.Minute, false}, FixedWindow{20, time.Hour, false}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				New(client, "login:alice", policies...)
			}
			must(b, New(client, "login:alice", policies...).Take, 1)
		})
	}
}
