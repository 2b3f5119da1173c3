package rulefile

import (
	"time"

	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// Duration is a duration above 0, in whole milliseconds.
type Duration time.Duration

// Want describes a duration.
func (*Duration) Want() string { return notation.WantDuration }

// UnmarshalText decodes a duration in the notation of package notation.
func (l *Duration) UnmarshalText(text []byte) error {
	length, err := notation.ParseDuration(Clip(string(text))) // the error has the text
	*l = Duration(length)
	return err
}
