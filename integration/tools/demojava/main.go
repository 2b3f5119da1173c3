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
	"html"
	"io"
	"log"
	"os"
	"strings"
	"time"

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
	const cell, line, margin = 8, 17, 14
	var text strings.Builder
	lines, wide := strings.Split(strings.TrimSpace(timeline), "\n"), 0
	for i, l := range lines {
		wide = max(wide, len([]rune(l)))
		color := "#e6edf3"
		if strings.Contains(l, " granted ") {
			color = "#3fb950"
		} else if strings.Contains(l, " denied ") {
			color = "#f85149"
		}
		fmt.Fprintf(&text, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", margin, margin+line*(i+1)-4, color,
			html.EscapeString(l))
	}
	w, h := wide*cell+2*margin, len(lines)*line+2*margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d">
<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
%[3]s</svg>
`, w, h, text.String())
}
