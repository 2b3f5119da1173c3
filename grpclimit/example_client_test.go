package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	test "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Two calls an hour to each server, for all programs together.
func ExampleUnaryClientInterceptor() {
	client := connect()

	perServer := grpclimit.Each(client, "calls", grpclimit.ByTarget(), limit.FixedWindow{Permits: 2, Interval: time.Hour})
	c, stop := start(nil, grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(perServer, unhurried)))
	defer stop()
	for range 3 {
		ctx, cancel := context.WithTimeout(noContext, time.Minute)
		defer cancel()
		err := call(ctx, c) // the third at once: there is no permit within the minute that the context lasts
		fmt.Println(status.Code(err), errors.Is(err, grpclimit.ErrNotSent))
	}
	// Output:
	// OK false
	// OK false
	// DeadlineExceeded true
}

func ExampleAtOnce() {
	client := connect()

	perServer := grpclimit.Each(client, "calls", grpclimit.ByTarget(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
	c, stop := start(nil,
		grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(perServer, unhurried, grpclimit.AtOnce())))
	defer stop()
	for range 2 {
		err := call(noContext, c)
		fmt.Println(status.Code(err), errors.Is(err, grpclimit.ErrNotSent))
	}
	// Output:
	// OK false
	// ResourceExhausted true
}

// Streams count against the quota of calls too.
func ExampleStreamClientInterceptor() {
	client := connect()

	perServer := grpclimit.Each(client, "calls", grpclimit.ByTarget(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
	c, stop := start(nil,
		grpc.WithStreamInterceptor(grpclimit.StreamClientInterceptor(perServer, unhurried, grpclimit.AtOnce())))
	defer stop()
	for range 2 {
		_, err := c.FullDuplexCall(noContext)
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// uploads is a stream that takes all that is sent, in place of yours.
var uploads = grpc.ServiceDesc{
	ServiceName: "example.Uploads",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Upload", ClientStreams: true,
		Handler: func(_ any, ss grpc.ServerStream) error {
			for n := 0; ; n++ {
				err := ss.RecvMsg(new(test.SimpleRequest))
				if errors.Is(err, io.EOF) {
					fmt.Println(n, "messages")
					return nil
				} else if err != nil {
					fmt.Println(n, "messages, and one too many")
					return err
				}
			}
		}}},
}

// Two messages an hour, in however many streams.
func ExampleEachMessage() {
	client := connect()

	perClient := grpclimit.Each(client, "messages", grpclimit.ByIP(), limit.FixedWindow{Permits: 2, Interval: time.Hour})
	conn, stop := startDesc(&uploads,
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perClient, unhurried, grpclimit.EachMessage())))
	defer stop()
	for range 2 {
		upload, err := conn.NewStream(noContext, &uploads.Streams[0], "/example.Uploads/Upload")
		if err != nil {
			panic(err)
		}
		_ = upload.SendMsg(new(test.SimpleRequest)) // RecvMsg returns the result
		_ = upload.CloseSend()
		_ = upload.RecvMsg(new(test.SimpleResponse))
	}
	upload, err := conn.NewStream(noContext, &uploads.Streams[0], "/example.Uploads/Upload")
	if err != nil {
		panic(err)
	}
	_ = upload.SendMsg(new(test.SimpleRequest))
	fmt.Println(status.Code(upload.RecvMsg(new(test.SimpleResponse))))
	// Output:
	// 1 messages
	// 1 messages
	// 0 messages, and one too many
	// ResourceExhausted
}
