// Demojava runs the two programs of examples/java-and-go on one Redis, and prints what both are
// granted. It fails if a window ever holds more permits than the rate.
//
//	go run ./integration/tools/demojava         prints the timeline
//	go run ./integration/tools/demojava -svg    prints it as a picture
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// longest is the time after which the demo gives up: Maven may have to download Redisson first.
const longest = 5 * time.Minute

func main() {
	svg := flag.Bool("svg", false, "print a picture")
	flag.Parse()
	if err := run(*svg); err != nil {
		fmt.Fprintln(os.Stderr, "demo-java:", err)
		os.Exit(1)
	}
}

func run(svg bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if !svg {
		return demo(ctx, os.Stdout)
	}
	var picture bytes.Buffer
	if err := demo(ctx, &picture); err != nil {
		return err
	}
	return draw(os.Stdout, picture.String())
}

// demo starts a Redis and plays on it.
func demo(ctx context.Context, out io.Writer) error {
	server, err := servers.OpenSingle(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	return play(ctx, "redis://"+server.Addr(), out)
}
