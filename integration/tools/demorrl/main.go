// Command demorrl draws the last screen of rrl demo. It reads what the tool writes on a terminal.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/tools/picture"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	screen := string(text[strings.LastIndex(string(text), "\x1b[H")+1:])
	screen, _, found := strings.Cut(screen, "\x1b[J")
	if !found {
		log.Fatal("demorrl: want the output of rrl demo on a terminal")
	}
	fmt.Print(picture.Terminal(strings.Split(strings.TrimPrefix(screen, "[H"), "\r\n")))
}
