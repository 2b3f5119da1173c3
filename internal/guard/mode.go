package guard

import "fmt"

// Mode is what becomes of a request while nobody can tell whether it is within the limit: Open, Closed, or the share of the limit
// that this process grants by itself.
type Mode float64

// The modes that are no share.
const (
	Closed Mode = 0  // it does not pass
	Open   Mode = -1 // it passes
)

// Check says what is wrong with a mode.
func (m Mode) Check() error {
	if m == Open || m >= 0 && m <= 1 {
		return nil
	}
	return fmt.Errorf("a share of the limit is %v, want above 0, at most 1", float64(m))
}
