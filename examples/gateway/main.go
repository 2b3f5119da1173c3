// Gateway is a reverse proxy that limits clients by address and route, per second and per minute at
// once. It shows a program around package httplimit: a chain of plain net/http parts.
//
//	go run ./examples/gateway         # a gateway on :8080 with an in-memory Redis and an upstream
//	go run ./examples/gateway load    # a load generator for it
//
// Start to read at newHandler in gateway.go.
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
	if len(args) > 0 && args[0] == "load" {
		return runLoad(ctx, args[1:], out)
	}
	c, err := parseConfig(args, out)
	if err != nil {
		return err
	}
	return serve(ctx, c, out)
}
