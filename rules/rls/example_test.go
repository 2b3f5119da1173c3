package rls_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// connect opens a Client on an in-memory Redis, in place of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
func connect() *rratelimiter.Client { return rratelimiter.New(redistest.Example()) }

// exampleFile writes a configuration.
func exampleFile(text string) string {
	dir, err := os.MkdirTemp("", "rls")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "shop.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	return file
}

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 1}
`

// A service for Envoy, until the program ends.
func ExampleServe() {
	client := connect()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // ":8081" is what others use
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	cancel()
	fmt.Println(rls.Serve(ctx, rls.Config{Client: client, Path: exampleFile(shop), GRPC: listener}))
	// Output: <nil>
}

// A request as Envoy sends it.
func ExampleServer_ShouldRateLimit() {
	client := connect()
	config := rls.Config{Client: client, Path: exampleFile(shop), Deadline: time.Minute} // for a busy machine
	server, err := rls.New(config)
	if err != nil {
		panic(err)
	}
	request := &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}},
	}}
	for range 2 {
		response, err := server.ShouldRateLimit(context.Background(), request)
		if err != nil {
			panic(err)
		}
		fmt.Println(response.GetOverallCode())
	}
	// Output:
	// OK
	// OVER_LIMIT
}

// A service in a program that has servers of its own.
func ExampleNew() {
	client := connect()
	server, err := rls.New(rls.Config{Client: client, Path: exampleFile(shop)})
	if err != nil {
		panic(err)
	}
	own := grpc.NewServer()
	server.Register(own)
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", server.Handler()))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(server.Watch(ctx), len(own.GetServiceInfo()))
	server.Shutdown()
	// Output: context canceled 2
}

// The configuration in force can be printed.
func ExampleLoad() {
	rules, err := rls.Load(exampleFile(shop), false)
	if err != nil {
		panic(err)
	}
	fmt.Print(rules)
	// Output: shop.user: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false
}

// Mistakes have a place.
func ExampleLoad_mistakes() {
	_, err := rls.Load(exampleFile(strings.Replace(shop, "year", "eon", 1)), false)
	_, place, _ := strings.Cut(err.Error(), ".yaml:")
	fmt.Println(place)
	// Output:
	// 5: descriptors[0].rate_limit.unit: is "eon", want second, minute, hour, day, week, month or year; or per, for any interval
}
