package limit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// tellsRefusals is the letter of a call whose reply has all only if not all is granted.
const tellsRefusals = "r"

// foretells reports whether the text of a FixedWindow says all that the requests of a batch want to
// know. A long reply is a third of what a grant costs the server.
func (p *protocol) foretells(b *engine.Batch) bool {
	if b.Full || b.Lease.Span > 0 || p.client.Engine.ServerTime() || len(p.members) > 1 {
		return false
	}
	_, ok := p.members[0].policy.(FixedWindow)
	return ok && !slices.ContainsFunc(b.Requests, func(r *engine.Request) bool { return r.Each })
}

// foretold returns the permits left, and an answer, as the text of a FixedWindow has them. They are
// zero for other policies.
func (p *protocol) foretold(b *engine.Batch, message rueidis.RedisMessage) (left int64, answer engine.Answer) {
	window, ok := p.members[0].policy.(FixedWindow)
	if !ok || b.Args[len(b.Args)-1] != tellsRefusals {
		return 0, answer
	}
	text, err := message.ToString()
	words := strings.Split(text, " ")
	if err != nil || len(words) != 3 {
		return 0, answer
	}
	now, nowErr := strconv.ParseInt(b.Args[0], 10, 64)
	end, endErr := strconv.ParseInt(words[1], 10, 64)
	count, countErr := strconv.ParseInt(words[2], 10, 64)
	if nowErr != nil || endErr != nil || countErr != nil {
		return 0, answer
	}
	o, _ := window.outlook(now, []int64{count, end*1000 - now})
	return o.left(), engine.Answer{Limit: o.limit(), ResetAfter: o.reset()}
}
