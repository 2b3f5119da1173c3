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
	"log"
	"os"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("demo-java: ")
	svg := flag.Bool("svg", false, "print a picture")
	flag.Parse()
	var picture bytes.Buffer
	out := io.Writer(os.Stdout)
	if *svg {
		out = &picture
	}
	if err := run(out); err != nil {
		log.Fatal(err)
	}
	if *svg {
		fmt.Print(draw(picture.String()))
	}
}

// run starts a Redis and plays on it. It gives up after five minutes: Maven may have to download
// Redisson first.
func run(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	server, err := servers.OpenSingle(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	return play(ctx, "redis://"+server.Addr(), out)
}

// draw returns a timeline as a picture.
func draw(timeline string) string {
	lines := strings.Split(strings.TrimSpace(timeline), "\n")
	for i, l := range lines {
		if strings.Contains(l, " granted ") {
			lines[i] = "\x1b[32m" + l
		} else if strings.Contains(l, " denied ") {
			lines[i] = "\x1b[31m" + l
		}
	}
	return picture.Terminal(lines)
}
