package guard

import "fmt"

// Mode decides requests that Redis cannot decide: Open, Closed, or the share of the limit that this
// process grants by itself.
type Mode float64

// The modes that are not a share.
const (
	Closed Mode = 0  // the request is refused
	Open   Mode = -1 // the request passes
)

// Check returns an error if the mode is invalid.
func (m Mode) Check() error {
	if m == Open || m >= 0 && m <= 1 {
		return nil
	}
	return fmt.Errorf("a share of the limit is %v, want above 0, at most 1", float64(m))
}
