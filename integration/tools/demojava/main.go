// Demojava runs the two programs of examples/java-and-go on one Redis, and prints what both are
// granted. It fails if a window ever holds more permits than the rate.
//
//	go run ./integration/tools/demojava         prints the timeline
//	go run ./integration/tools/demojava -svg    prints it as a picture
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
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
	if err := installed(); err != nil {
		return err
	}
	server, err := servers.OpenSingle(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	return play(ctx, "redis://"+server.Addr(), out)
}

// installed returns an error that lists the missing programs.
func installed() error {
	var missing []string
	for _, needed := range []struct{ program, install string }{
		{"redis-server", "Redis 6 or later (apt-get install redis-server, brew install redis)"},
		{"javac", "a JDK 17 or later (apt-get install default-jdk-headless, brew install openjdk)"},
		{"mvn", "Maven 3 (apt-get install maven, brew install maven)"},
	} {
		if _, err := exec.LookPath(needed.program); err != nil {
			missing = append(missing, needed.install)
		}
	}
	if missing != nil {
		return errors.New("install " + strings.Join(missing, ", and "))
	}
	return nil
}
