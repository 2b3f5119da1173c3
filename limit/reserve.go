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
	return scriptFor(reserve, p.wire.members), p.wire.keys
}

// Arguments sets the arguments of the reserve script.
func (p reserveProtocol) Arguments(b *engine.Batch, now time.Time) {
	var runs []string
	for i := 0; i < len(b.Requests); {
		r, run := b.Requests[i], i+1
		for run < len(b.Requests) && b.Requests[run].Permits == r.Permits && b.Requests[run].Within == r.Within {
			run++
		}
		runs = append(runs, fmt.Sprintf("%d*%d<%d", r.Permits, run-i, min(r.Within, longestDelay).Microseconds()))
		i = run
	}
	ordered := ""
	if b.Ordered {
		ordered = "o"
	}
	b.Args = p.wire.members[0].policy.arguments(append(b.Args[:0],
		p.wire.plan.client.Engine.Micros(now), strings.Join(runs, " "), newEpoch(), ordered), now)
}

// Answer reads the reply of the reserve script.
func (p reserveProtocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	reply := redisx.ReadReply(message)
	if code := reply.Number(); code != replyDone {
		return false, p.wire.stopped(code, reply, message)
	}
	answers := strings.Split(reply.Text(), ",")
	s := &state{most: p.wire.plan.most}
	if b.Ordered {
		s.add(p.wire.members[0].policy, &reply)
	}
	if !reply.Ended() || len(answers) > len(b.Requests) || !b.Ordered && len(answers) < len(b.Requests) {
		return false, p.wire.unexpected(message)
	}
	if b.Ordered {
		b.Forecast = reservations{s, s.policies[0].(reservableForecast)} //nolint:errcheck,forcetypeassert // it is reservable
	}
	now := time.Now()
	for i, answer := range answers {
		r := b.Requests[i]
		first, named, _ := strings.Cut(answer, " ")
		delay, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return false, p.wire.unexpected(message)
		}
		if delay < 0 {
			r.RetryAfter, b.Denied = micros(-delay), r.Permits
			continue
		}
		reserved := &Reservation{
			wire: p.wire, delay: micros(delay), at: now.Add(micros(delay)), permits: r.Permits, receipt: named,
		}
		r.Allowed, r.Granted, r.Extra, r.Refund = true, r.Permits, reserved, reserved.refund
		if delay > 0 {
			r.At = b.At(reserved.delay) // whatever the reply took, waiters of later calls do not overtake
		}
	}
	return false, nil
}

// Receipt returns nil: Answer gives each Reservation a receipt of its own.
func (p reserveProtocol) Receipt(*engine.Batch) receipt.Refund { return nil }

// Refund cancels the reservations of callers that have left. It begins with the last one, so that
// each returns whole unless another caller has reserved behind it.
func (p reserveProtocol) Refund(b *engine.Batch) func(context.Context) {
	var receipts []string
	for _, r := range slices.Backward(b.Lost) {
		one := r.Extra.(*Reservation)
		receipts = append(receipts, one.part(one.permits))
	}
	return func(ctx context.Context) { _ = p.wire.refund(ctx, cancel, strings.Join(receipts, ",")) }
}

// reservedAhead is how far ahead of their time the waiters of a process get reservations.
const reservedAhead = time.Second

// onlyAhead is engine.Limiter.Only.
func (w *wire) onlyAhead(permits int64) time.Duration {
	p := w.members[0].policy.(reservable) //nolint:errcheck,forcetypeassert // plan.reservable
	return min(p.takenBefore(permits), longestDelay-reservedAhead)
}

// reservations is the forecast of waiters that make reservations.
type reservations struct {
	*state
	policy reservableForecast
}

// Earliest returns the time of a reservation.
func (o reservations) Earliest(ahead, permits int64) time.Duration {
	return o.policy.delay(ahead, permits)
}

// Denied returns the time of a reservation too.
func (o reservations) Denied(permits int64) (engine.Answer, bool) {
	return engine.Answer{Limit: o.Limit(), RetryAfter: o.policy.delay(0, permits), ResetAfter: o.reset(0)}, true
}
