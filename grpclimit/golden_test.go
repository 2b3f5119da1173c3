package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	test "google.golang.org/grpc/interop/grpc_testing"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

const page = "../docs/grpc.md"

var errRefused = errors.New("connection refused")

// documented is the servers that docs/grpc.md calls.
func documented(f *redistest.Fixture, client *rratelimiter.Client) map[string]test.TestServiceClient {
	each := func(name string, policies ...limit.Policy) choice {
		return grpclimit.Each(client, name, grpclimit.ByIP(), policies...)
	}
	second, minute := limit.FixedWindow{Permits: 2, Interval: time.Second}, limit.SlidingWindow{Permits: 100,
		Interval: time.Minute}
	servers := make(map[string]test.TestServiceClient)
	serve := func(name string, choose choice, opts ...grpclimit.Option) {
		servers[name] = unary(f, new(service), choose,
			append(opts, grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
				return int64(call.Message.(*test.SimpleRequest).GetResponseSize())
			}))...)
	}
	serve("two", each("two", second, minute))
	serve("both", each("both", limit.FixedWindow{Permits: 4, Interval: time.Second},
		limit.TokenBucket{Capacity: 5, Refill: 1, Interval: 10 * time.Second}))
	serve("named", each("named", limit.Named("pages per day", limit.Calendar{Permits: 50, Unit: limit.Day})))
	serve("closed", grpclimit.All(fake.Failing(errRefused)))
	serve("open", grpclimit.All(fake.Failing(errRefused)), grpclimit.OnFailure(limit.Open))
	ten := fake.Failing(errRefused, limit.FixedWindow{Permits: 10, Interval: time.Minute})
	serve("local", grpclimit.All(ten), grpclimit.OnFailure(limit.Local(0.1)))
	serve("keyed", grpclimit.Each(client, "keyed", grpclimit.ByMetadata("tenant"), second))
	serve("unknown", func(context.Context, grpclimit.Call) (grpclimit.Limiter, error) {
		return nil, errors.New("a peer of the network \"unix\"")
	})
	return servers
}

var block = regexp.MustCompile("(?s)```text\n-> (\\w+), cost (\\d+)\n.*?```\n")

// The page shows the calls in their order.
func TestPage_Calls_AreAnsweredAsDocumented(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		servers := documented(f, client)
		blocks := golden.Blocks(t, page, block, func(parts []string) string {
			cost, err := strconv.Atoi(parts[2])
			require.NoError(t, err)
			answer := strings.TrimSpace(getOf(f, servers[parts[1]], int32(cost))) + "\n"
			return fmt.Sprintf("```text\n-> %s, cost %s\n%s```\n", parts[1], parts[2], answer)
		})
		assert.Equal(t, 13, blocks)
	})
}

func TestSetUp_CodeOfThePage_RunsInExample(t *testing.T) {
	guardtest.TestPage(t, page, "calls := grpclimit", "example_test.go")
	guardtest.TestPage(t, page, "free, err :=", "example_test.go")
}
