package rls

import "github.com/rratelimiter/rratelimiter/internal/rulefile"

// decoder decodes one file.
type decoder struct{ rulefile.Decoder }

// text decodes a text, "" if it is missing or wrong.
func (d *decoder) text(n *rulefile.Node) string {
	text, _ := d.Text(n, "a text")
	return text
}
