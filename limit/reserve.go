package limit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// reserveProtocol is the engine's protocol of calls that reserve permits.
type reserveProtocol struct{ protocol }

// maxReservations is the largest number in one call: each costs the server more than a
// microsecond, even equal ones.
const maxReservations = 256

// Call returns the script that reserves permits.
func (p reserveProtocol) Call(*engine.Batch) (script *redisx.Script, keys []string) {
	return scriptFor(reserve, p.members), p.keys
}

// Arguments sets the arguments of the reserve script.
func (p reserveProtocol) Arguments(b *engine.Batch, now time.Time) {
	var runs []string
	for i := 0; i < len(b.Requests); {
		r, run := b.Requests[i], i+1
		for run < len(b.Requests) && b.Requests[run].Permits == r.Permits && b.Requests[run].Within == r.Within {
			run++
		}
		runs = append(runs, fmt.Sprintf("%d*%d<%d", r.Permits, run-i, r.Within.Microseconds()))
		i = run
	}
	b.Args = p.members[0].policy.arguments(append(b.Args[:0],
		p.client.Engine.Micros(now), strings.Join(runs, " "), newEpoch()), now)
}

// Answer reads the reply of the reserve script.
func (p reserveProtocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	reply := redisx.ReadReply(message)
	if kind := reply.Number(); kind != replyDone {
		return false, p.stopped(kind, reply, message)
	}
	answers := strings.Split(reply.Text(), ",")
	if !reply.Ended() || len(answers) != len(b.Requests) {
		return false, p.unexpected(message)
	}
	now := time.Now()
	for i, r := range b.Requests {
		first, named, _ := strings.Cut(answers[i], " ")
		delay, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return false, p.unexpected(message)
		}
		if delay < 0 {
			r.RetryAfter = micros(-delay)
			continue
		}
		r.Allowed = true
		r.Extra = &Reservation{
			wire: p.wire, delay: micros(delay), at: now.Add(micros(delay)), permits: r.Permits, receipt: named,
		}
	}
	return false, nil
}

// Receipt returns nil: each Reservation has a receipt of its own.
func (p reserveProtocol) Receipt(*engine.Batch) receipt.Refund { return nil }

// Refund cancels the reservations of callers that have left. It begins with the last one, so that
// each returns whole unless another caller has reserved behind it.
func (p reserveProtocol) Refund(b *engine.Batch) func(context.Context) {
	var receipts []string
	for _, r := range slices.Backward(b.Lost) {
		one := r.Extra.(*Reservation)
		receipts = append(receipts, one.part(one.permits))
	}
	return func(ctx context.Context) { _ = p.refund(ctx, cancel, strings.Join(receipts, ",")) }
}
