package rratelimiter

import (
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// protocol is a limiter as Redis has it: its keys, and the calls of its scripts. It is the engine's
// Protocol.
type protocol struct {
	client *Client
	name   string // as the Limiter was opened
	keys   limiterKeys
	hinted atomic.Pointer[hint]

	initial []redisx.Call // sets the initial rate; nil for none
}

// namedKeys returns the keys that a script gets: only those of an OVERALL limiter, unless the limiter
// is known to be PER_CLIENT. If the script needs the others, it replies so. The reason: while a slot
// migrates, a cluster refuses a script that names a key which does not exist.
func (p *protocol) namedKeys(all bool) []string {
	if all || p.hint().rate.isPerClient() {
		return p.keys[:]
	}
	return p.keys[:sharedKeys]
}
