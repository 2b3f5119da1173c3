package luanames

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Origins marks the parts of which scripts are assembled, so that a reader of a whole script sees from where each of
// its lines comes. A mark has no word, since the assembly goes by words.
type Origins struct{ names []string }

var mark = regexp.MustCompile(`^( *)--#(\d*)$`)

// Mark returns parts that begin and end with a mark. origin returns where a part comes from, as "limit/smooth.lua, read".
func (o *Origins) Mark(parts redisx.Parts, origin func(part string) string) redisx.Parts {
	marked := make(redisx.Parts)
	for part, text := range parts {
		marked[part] = fmt.Sprintf("--#%d\n%s--#\n", len(o.names), text)
		o.names = append(o.names, origin(part))
	}
	return marked
}

// Show returns a script of marked parts with a comment before the lines of each part. Lines of no part come from source.
func (o *Origins) Show(script, source string) string {
	var text strings.Builder
	within, shown := []string{source}, ""
	for line := range strings.Lines(script) {
		if found := mark.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found == nil {
			if now := within[len(within)-1]; now != shown {
				text.WriteString(line[:len(line)-len(strings.TrimLeft(line, " "))] + "-- " + now + "\n")
				shown = now
			}
			text.WriteString(line)
		} else if n, err := strconv.Atoi(found[2]); err == nil {
			within = append(within, o.names[n])
		} else {
			within = within[:len(within)-1]
		}
	}
	return text.String()
}
