package ruleset

import "github.com/rratelimiter/rratelimiter/internal/rulefile"

// decoder decodes a file of rules.
type decoder struct {
	rulefile.Decoder

	// Of the head of the file.
	domain       string
	allowSlashes bool
	ipv6Bits     int
}
