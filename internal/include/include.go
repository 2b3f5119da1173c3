// Package include has the Lua that the scripts of several packages take in by "--@include name".
package include

import (
	"embed"
	"regexp"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Files are the files of this package.
//
//go:embed *.lua
var Files embed.FS

// Parts are their texts by name.
var Parts = redisx.ReadParts(Files, ".")

// command is a command of a line, behind "--@".
var command = regexp.MustCompile(`^(each|once|lone|include) `)

// Waiting returns the source of a script for callers that wait, or for others. A line "--@waiting line" is a
// line or a command of the script for callers that wait, and is in no other one.
func Waiting(source string, waits bool) string {
	var text strings.Builder
	for line := range strings.Lines(source) {
		if indent, waiting, ok := strings.Cut(line, "--@waiting "); ok {
			if !waits {
				continue
			}
			if line = indent + waiting; command.MatchString(waiting) {
				line = indent + "--@" + waiting
			}
		}
		text.WriteString(line)
	}
	return text.String()
}
