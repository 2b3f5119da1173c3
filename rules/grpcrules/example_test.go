package grpcrules_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/grpcrules"
)

// connect opens a Client on an in-memory Redis.
var connect = guardtest.Example

// A server of grpc-go, by the rules that match grpc.
func ExampleUnaryServerInterceptor() {
	client := connect()

	set, err := rules.Parse("rules.yaml",
		[]byte("rules: [{name: orders, match: {grpc: /shop.Orders/*}, key: all, limits: 1/h}]"))
	if err != nil {
		panic(err)
	}
	// For grpc.NewServer(grpc.UnaryInterceptor(intercept)).
	intercept := grpcrules.UnaryServerInterceptor(set, client, grpclimit.Deadline(time.Minute))
	call := &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Create"}
	for range 2 {
		_, err := intercept(context.Background(), nil, call,
			func(context.Context, any) (any, error) { return "created", nil })
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

func ExampleStreamServerInterceptor() {
	client := connect()

	set, err := rules.Parse("rules.yaml",
		[]byte("rules: [{name: orders, match: {grpc: /shop.Orders/Follow}, key: ip, limits: 1/h}]"))
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.StreamInterceptor(grpcrules.StreamServerInterceptor(set, client)))
	defer server.Stop()
	// Output:
}
