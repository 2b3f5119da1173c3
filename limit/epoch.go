package limit

import (
	"math/rand/v2"
	"strconv"
)

const (
	epochBase  = 36
	leastEpoch = 36 * 36 * 36 * 36 * 36 // of six digits, as all are
)

// newEpoch returns a random word. The call that begins a state sets it, and a refund names it.
// So no refund changes a state that began after its grant, as one does after a Reset. Two states of
// a name share an epoch in one of two billion cases.
func newEpoch() string { return string(appendEpoch(nil)) }

func appendEpoch(to []byte) []byte {
	return strconv.AppendUint(to, leastEpoch+rand.Uint64N((epochBase-1)*leastEpoch), epochBase)
}
