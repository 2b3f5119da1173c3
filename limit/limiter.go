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
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Limiter limits a name by one or several policies. All programs that open the name with the same
// policies on the same Redis share it.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with
// [rratelimiter.ErrNoClient]. Every call ends as soon as its context does, with the context's
// error. A change that was sent may still take effect. If permits arrive for a caller that has
// gone, the Client releases them.
type Limiter struct {
	client  inside.Client
	err     error // what is wrong with the client, the name or the policies
	members []member
	keys    []string       // of the members, in their order
	most    int64          // the most permits that can ever be granted at once, as far as that is known here
	script  *redisx.Script // that takes permits

	leaseScript *redisx.Script // the same, and leases some; nil where that is not possible or not wanted
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

// New opens the limiter with a name. It sends nothing and is cheap: open one per user, tenant or
// address as needed. With invalid arguments, calls fail with [rratelimiter.ErrInvalidRate] (an
// invalid field of a policy, no policy, or two that share a key), [rratelimiter.ErrInvalidName] or
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
	mapped, err := l.client.Mapped(name)
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

// appendPrefix appends the beginning of the keys of a name, in the cluster slot of the name. A name
// without "{" becomes the hash tag. A name with "{" keeps its own, and gets two colons: so "bob"
// and "{bob}" share a slot but no key. The last word of a policy's suffix has no colon, so no two
// names share a key.
func appendPrefix(text []byte, name string) []byte {
	if strings.Contains(name, "{") {
		return append(append(text, name...), "::"...)
	}
	return append(append(append(text, '{'), name...), "}:"...)
}

// mostPolicies is how many policies a script has room for: Lua counts 200 locals, and Smooth has
// 16.
const mostPolicies = 10

// open opens a limiter with its members. It may write to text.
func (l *Limiter) open(name string, text []byte) {
	l.calls.Name = name
	if n := len(l.members); n < 1 || n > mostPolicies {
		l.err = invalid("%d policies for %q, want 1 to %d", n, name, mostPolicies)
		return
	}
	l.most, l.keys = engine.MostPermits, l.members[0].keys
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
		// With its length, so that no name can look like the keys of several, or like an ID with
		// something before it.
		text = append(append(strconv.AppendInt(text, int64(len(m.keys[0])), 10), ' '), m.keys[0]...)
		text = append(m.policy.settings(append(text, ' ')), '\n')
	}
	if l.client.Engine.Cluster() {
		if l.err = l.client.SameSlot(l.keys...); l.err != nil {
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

// Name returns the name with which the limiter was opened.
func (l *Limiter) Name() string { return l.calls.Name }

// check returns the error that needs no call to Redis.
func (l *Limiter) check(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	if l.calls.Engine == nil {
		return fmt.Errorf("%w: open a Limiter with New", rratelimiter.ErrNoClient)
	}
	return ctx.Err()
}

// checkPermits is check for a call that takes permits.
func (l *Limiter) checkPermits(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if permits > l.most {
		err := (*protocol)(l).AboveLimit(permits, l.most)
		if permits > engine.MostPermits {
			err = fmt.Errorf("%w: %w", rratelimiter.ErrInvalidPermits, err)
		}
		l.calls.Refused(ctx, permits, err)
		return err
	}
	return nil
}

// try asks the engine once, wait as soon as the permits are free. Both then correct drift of the
// limiters of Redisson's layout, which their scripts do not.
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

// TryAcquire takes permits if every policy has them free now, and reports whether it did. It never
// waits.
//
// Errors: [rratelimiter.ErrInvalidPermits] outside 1 to 4294967295;
// [rratelimiter.ErrPermitsExceedRate] for more than a policy can ever grant, or than 4294967295;
// *[rratelimiter.StateError] if a key holds other data. If Redis fails during the call, the permits
// may be taken all the same.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return false, err
	}
	result, err := l.try(ctx, engine.Ask{Permits: permits})
	return result.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers for a user of the caller. Of several policies,
// RetryAfter and ResetAfter are the longest. Limit and Remaining are those of the policy that
// denies for longest; if all grant, those of the policy with the fewest permits left.
func (l *Limiter) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return rratelimiter.Decision{}, err
	}
	result, err := l.try(ctx, engine.Ask{Permits: permits, Detail: true})
	return rratelimiter.Decision(result.Answer), err
}

// TakeEach is [Limiter.Take] with a Decision for each policy, in their order. Allowed reports
// whether that policy had the permits free. They were taken if all policies had.
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

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout, and
// reports whether it did. It queues with callers of Acquire, or makes a reservation as Acquire
// does. If the permits cannot be free in time, it returns false at once. The timeout counts from
// the call, and no permit is granted after it. A timeout of 0 or below is one try, like TryAcquire.
// If Redis has not replied by then, the error is [context.DeadlineExceeded].
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

// Acquire waits until permits are free and takes them. Callers that wait for one name on one Client
// are served first come, first served, a large request before smaller ones behind it. With a single
// [TokenBucket], [LeakyBucket] or [Smooth], Acquire makes a reservation and waits for its time:
// then callers of all programs are served in the order in which Redis received them, with at most
// one call each.
//
// Acquire ends with ctx. If the permits cannot be free before the deadline of ctx, it fails at once
// with an error that is [context.DeadlineExceeded]. An Acquire that fails holds no permits; its
// reservation is cancelled as by [Reservation.Cancel].
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
