// Gateway is a reverse proxy that limits its clients by address and route, per second and per minute at once. It is what a
// program around package httplimit looks like: plain parts of net/http in a chain, and Redis behind one of them.
//
//	go run ./examples/gateway          # a gateway on :8080, on a Redis in memory, with an upstream of its own
//	go run ./examples/gateway shoot    # shoots at it, and tells what came back
//
// newHandler in gateway.go is where to begin to read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "shoot" {
		return runShoot(ctx, args[1:], out)
	}
	c, err := parseConfig(args, out)
	if err != nil {
		return err
	}
	return serve(ctx, c, out)
}
