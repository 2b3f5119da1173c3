package limit

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// ErrLost is the error of a place of an [InFlight] whose lease has ended before it was returned, for OnSettleError of
// the middleware and [Taken.Settle]. The place counts no longer.
var ErrLost = hold.ErrLost

// heldMember is the index of an InFlight among the members of a limiter, and that of the ID of its places among the
// arguments of the acquire script.
type heldMember struct{ index, id int }

// placeArg is the place of the ID among an InFlight's own arguments.
const placeArg = 2

// isHeld reports whether a member holds its permits until they are returned.
func isHeld(m member) bool { return m.described.Refill == policy.Held }

// idTimeDigits is the length of the first part of an ID, which is enough up to the year 2059.
const idTimeDigits = 8

// newPlaceID returns an ID for the places of a call: the time, and a random word.
func newPlaceID(now time.Time) string {
	if now.IsZero() {
		now = time.Now()
	}
	const least = leastEpoch * epochBase * epochBase // of idTimeDigits digits
	ms := min(max(least, uint64(max(0, now.UnixMilli()))), epochBase*least-1)
	id := strconv.AppendUint(make([]byte, 0, 2*idTimeDigits), ms, epochBase)
	return string(strconv.AppendUint(id, least+rand.Uint64N((epochBase-1)*least), epochBase))
}

// placeOf returns the member of a place.
func placeOf(id string, index int, permits int64, lease time.Duration) string {
	member := append(make([]byte, 0, 40), id...)
	member = strconv.AppendInt(append(member, ' '), int64(index), 10)
	member = strconv.AppendInt(append(member, ' '), permits, 10)
	return string(strconv.AppendInt(append(member, ' '), lease.Milliseconds(), 10))
}

// placeState is a place in Redis. Times are Unix milliseconds.
type placeState struct{ begin, permits, lease, end int64 }

// parsePlace parses a place, as placeOf has it, and its score.
func parsePlace(text string) (p placeState, ok bool) {
	id, rest, _ := strings.Cut(text, " ")
	n, ok := numbersOf(strings.Split(rest, " ")...)
	if !ok || len(n) != 4 || len(id) < idTimeDigits {
		return p, false
	}
	begin, err := strconv.ParseInt(id[:idTimeDigits], epochBase, 64)
	return placeState{begin, n[1], n[2], n[3]}, err == nil
}

// places makes the calls for the places of one InFlight.
type places struct {
	plan   *plan
	member member
}

func (p *places) protocol() *protocol {
	return &openMembers(p.plan.client, p.member.name, []member{p.member}).protocol
}

// Return implements hold.Calls.
func (p *places) Return(ctx context.Context, members []string) error {
	w := p.protocol()
	message, err := engine.ChangeKeepingPrefetches(ctx, w.plan.client.Engine, w.dependsOn,
		func(ctx context.Context) (rueidis.RedisMessage, error) {
			return w.run(ctx, returnCall, nil, members...)
		})
	if err == nil {
		expired, _ := message.AsInt64()
		w.plan.client.Engine.ReportExpired(w.name, int(expired))
	}
	return err
}

// reportExpired reports the places that the call of a grant has removed. Texts are those of the members.
func (p *protocol) reportExpired(texts []string) {
	for _, at := range p.plan.holds {
		if expired, err := strconv.Atoi(texts[at.index]); err == nil {
			p.plan.client.Engine.ReportExpired(p.members[at.index].name, expired)
		}
	}
}

// Renew implements hold.Calls.
func (p *places) Renew(ctx context.Context, members []string) ([]int, error) {
	w := p.protocol()
	return engine.Detach(ctx, func(ctx context.Context) ([]int, error) {
		message, err := w.eval(ctx, renewCall, nil, members...)
		if err != nil {
			return nil, err
		}
		r := redisx.ReadReply(message)
		if code := r.Number(); code != replyDone {
			return nil, w.stopped(code, r, message)
		}
		var ended []int
		for r.Len() > 0 {
			ended = append(ended, int(r.Number())-1)
		}
		if !r.Ended() {
			return nil, w.unexpected(message)
		}
		return ended, nil
	})
}
