package limit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Limiter limits a name by one policy or several at once, shared by all programs that open the name with the same policies on
// the same Redis.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with [rratelimiter.ErrNoClient]. Every call ends as soon
// as its context does, with the context's error. A call that changes something and had been sent by then may still take
// effect, but permits that arrive for a caller that has gone are given back.
//
// Callers that ask for the same name and policies at the same moment share one call to Redis.
type Limiter struct {
	client  inside.Client
	err     error // what is wrong with the client, the name or the policies
	members []member
	keys    []string       // of the members, in their order
	most    int64          // the most permits that can ever be granted at once, as far as that is known here
	script  *engine.Script // that takes permits

	leaseScript *engine.Script // the same, and leases some; nil where that is not possible or not wanted
	calls       engine.Limiter
	reserves    engine.Limiter // for reservations, where there are any

	room struct { // of members and keys: mostly there is one of each
		members [1]member
		keys    [1]string
	}
}

// member is one policy of a limiter.
type member struct {
	policy Policy
	name   string // that it was opened with
	keys   []string
}

// New opens the limiter of a name. It asks nothing of Redis and costs little, so that a name for each user, tenant or address
// is fine. What is wrong with the name or the policies shows at the first call: [rratelimiter.ErrInvalidRate] for a field of a
// policy that is out of range, no policy, or two that would count in the same key; [rratelimiter.ErrInvalidName];
// [rratelimiter.ErrNoClient].
func New(client *rratelimiter.Client, name string, policies ...Policy) *Limiter {
	l := new(Limiter)
	l.calls.Name = name
	if l.client, l.err = inside.Open(client); l.err != nil {
		return l
	}
	for i, p := range policies {
		switch p.(type) {
		case FixedWindow, Calendar, SlidingWindow, SlidingLog, TokenBucket, LeakyBucket, Smooth:
		default:
			l.err = invalid("policy %d of %q is a %T, give a policy of this package by value", i+1, name, p)
			return l
		}
		if l.err = p.validate(); l.err != nil {
			return l
		}
	}
	mapped, err := l.client.Names.Mapped(name)
	if err != nil {
		l.err = err
		return l
	}
	keys := l.room.keys[:0]
	if l.members = l.room.members[:0]; len(policies) > 1 {
		l.members, keys = make([]member, 0, len(policies)), make([]string, 0, len(policies))
	}
	text := make([]byte, 0, 128)
	for i, p := range policies {
		keys = append(keys, string(p.suffix(appendPrefix(text, mapped))))
		l.members = append(l.members, member{p, name, keys[i : i+1 : i+1]})
	}
	l.open(name, text)
	return l
}

// appendPrefix appends what the keys of a name begin with, in the cluster slot of the name. A name without "{" becomes the hash tag. A name
// with "{" has its own, and two colons: so "bob" and "{bob}" share a slot but no key. Suffixes of policies keep colons out of their last
// words, so no two names share a key.
func appendPrefix(text []byte, name string) []byte {
	if strings.Contains(name, "{") {
		return append(append(text, name...), "::"...)
	}
	return append(append(append(text, '{'), name...), "}:"...)
}

// mostPolicies is how many policies a script has room for: Lua counts 200 locals, and Smooth has 16.
const mostPolicies = 10

// open makes a limiter of its members. The text is room to write in.
func (l *Limiter) open(name string, text []byte) {
	l.calls.Name = name
	if n := len(l.members); n < 1 || n > mostPolicies {
		l.err = invalid("%d policies for %q, want 1 to %d", n, name, mostPolicies)
		return
	}
	l.most, l.keys = maxPermits, l.members[0].keys
	for _, m := range l.members[1:] {
		l.keys = append(l.keys, m.keys...)
	}
	subjects := l.keys
	if len(subjects) > len(l.members) {
		subjects = make([]string, 0, len(l.members))
		for _, m := range l.members {
			subjects = append(subjects, m.keys[0])
		}
	}
	text = append(text, "policies "...)
	for i, m := range l.members {
		for _, before := range l.members[:i] {
			if shared := slices.IndexFunc(m.keys, func(key string) bool { return slices.Contains(before.keys, key) }); shared >= 0 {
				l.err = invalid("%+v of %q and %+v of %q would count in the same key, %q", before.policy, before.name, m.policy, m.name, m.keys[shared])
				return
			}
		}
		l.most = min(l.most, m.policy.most())
		// With its length, so that no name can look like the keys of several, or like an ID with something before it.
		text = append(append(strconv.AppendInt(text, int64(len(m.keys[0])), 10), ' '), m.keys[0]...)
		text = append(m.policy.settings(append(text, ' ')), '\n')
	}
	if l.client.Engine.Cluster() {
		if l.err = inside.SameSlot(l.keys...); l.err != nil {
			return
		}
	}
	l.script = scriptFor(acquire, l.members)
	if l.client.Engine.Leases() && canLease(l.members) {
		l.leaseScript, l.calls.Leases = scriptFor(lease, l.members), true
	}
	l.calls.Engine, l.calls.ID, l.calls.Subjects, l.calls.Protocol = l.client.Engine, string(text), subjects, (*protocol)(l)
	if l.client.Engine.Observed() {
		l.calls.Policy = policyOf(l.members)
	}
	if l.reservable() {
		l.reserves.Engine, l.reserves.ID, l.reserves.Name, l.reserves.Policy = l.client.Engine, "reserve "+l.calls.ID, name, l.calls.Policy
		l.reserves.Subjects, l.reserves.Protocol, l.reserves.Most = subjects, (*reserving)(l), mostReservations
	}
}

// Name is the name that the limiter was opened with.
func (l *Limiter) Name() string { return l.calls.Name }

// check says what is wrong before Redis is asked at all.
func (l *Limiter) check(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	if l.calls.Engine == nil {
		return fmt.Errorf("%w: open a Limiter with New", rratelimiter.ErrNoClient)
	}
	return ctx.Err()
}

// checkPermits says what is wrong with permits to take.
func (l *Limiter) checkPermits(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if permits > l.most {
		err := (*protocol)(l).AboveLimit(permits, l.most)
		l.calls.Refused(ctx, permits, err)
		return err
	}
	return nil
}

// try asks the engine once, wait as soon as the permits are free. Both then correct drift of the limiters of Redisson's
// layout, which their scripts do not.
func (l *Limiter) try(ctx context.Context, ask engine.Ask) (engine.Result, error) {
	result, err := l.calls.Try(ctx, ask)
	if err == nil {
		l.countDrift(ctx)
	}
	return result, err
}

func (l *Limiter) wait(ctx context.Context, permits int64, deadline time.Time) (bool, error) {
	granted, err := l.calls.Wait(ctx, permits, deadline)
	if err == nil {
		l.countDrift(ctx)
	}
	return granted, err
}

func (l *Limiter) countDrift(ctx context.Context) {
	for _, m := range l.members {
		if p, ok := m.policy.(redisson); ok {
			p.limiter.CountDrift(ctx)
		}
	}
}

// TryAcquire takes permits if they are free now, by every policy, and says whether they were. It never waits.
//
// Errors: [rratelimiter.ErrInvalidPermits], [rratelimiter.ErrPermitsExceedRate] for more than a policy could ever grant, and
// *[rratelimiter.StateError] where a key holds what is not a limiter's. Where Redis fails while the call is under way the
// permits may be taken all the same.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return false, err
	}
	result, err := l.try(ctx, engine.Ask{Permits: permits})
	return result.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers that a caller shows its own users. Those of several policies are told as one:
// RetryAfter and ResetAfter are the longest; Limit and Remaining are those of the policy that refused for longest, or where all
// granted of the one with the fewest permits left.
func (l *Limiter) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return rratelimiter.Decision{}, err
	}
	result, err := l.try(ctx, engine.Ask{Permits: permits, Detail: true})
	return rratelimiter.Decision(result.Answer), err
}

// TakeEach is [Limiter.Take] with a Decision for each policy, in their order. Allowed says which of them had the permits free;
// they were taken if all had.
func (l *Limiter) TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return nil, err
	}
	result, err := l.try(ctx, engine.Ask{Permits: permits, Detail: true, Each: true})
	return decisions(result.Parts()), err
}

func decisions(answers []engine.Answer) []rratelimiter.Decision {
	if answers == nil {
		return nil
	}
	all := make([]rratelimiter.Decision, len(answers))
	for i, a := range answers {
		all[i] = rratelimiter.Decision(a)
	}
	return all
}

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout, and says whether it was. It stands in
// line with Acquire, or makes a reservation as Acquire does. Where the permits cannot be free in time it says so at once rather
// than at the end of the timeout. The timeout counts from the call, and no permit is granted after it. A timeout of 0 or below is
// one try, as TryAcquire. If it passes without any answer of Redis, the error is [context.DeadlineExceeded].
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout <= 0 {
		return l.TryAcquire(ctx, permits)
	}
	deadline := time.Now().Add(timeout)
	if err := l.checkPermits(ctx, permits); err != nil {
		return false, err
	}
	if l.reservable() {
		asking := l.calls.Asking(permits)
		granted, err := l.reserveWithin(ctx, permits, deadline, &asking)
		asking.Tell(ctx, granted, engine.FromRedis, err)
		return granted, err
	}
	return l.wait(ctx, permits, deadline)
}

// Acquire takes permits as soon as they are free, and waits until then. Those who wait for one name on one Client are served in
// the order in which they came, a large request before smaller ones behind it. With a single [TokenBucket], [LeakyBucket] or
// [Smooth] it makes a reservation and waits for its moment: then callers of all programs are served in the order in which
// Redis saw them, at one call each at most.
//
// It ends with ctx; where the deadline of ctx lies before the moment at which the permits could be free, it fails at once with
// an error that is [context.DeadlineExceeded]. Nobody holds permits afterwards who was not granted them; a reservation is given
// back as [Reservation.Cancel] does.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	if err := l.checkPermits(ctx, permits); err != nil {
		return err
	}
	if l.reservable() {
		asking := l.calls.Asking(permits)
		err := l.reserveAndWait(ctx, permits, &asking)
		asking.Tell(ctx, err == nil, engine.FromRedis, err)
		return err
	}
	_, err := l.wait(ctx, permits, time.Time{})
	return err
}
