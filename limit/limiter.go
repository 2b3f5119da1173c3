package limit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Limiter limits a name by one or several policies. All programs that open the name with the same
// policies on the same Redis share it.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with
// [rratelimiter.ErrNoClient]. Every call ends as soon as its context does, with the context's
// error. A change that was sent may still take effect. If permits arrive for a caller that has
// left, the Client releases them.
type Limiter struct {
	sealed
	protocol  protocol
	err       error // of the client, the name or the policies
	crossSlot error // if Redis is a cluster

	calls engine.Limiter

	// The members and keys of a limiter with one policy.
	oneMember [1]member
	oneKey    [1]string
}

// New opens the limiter with a name. It sends nothing and is cheap: open one per user, tenant or
// address as needed. With invalid arguments, calls fail with [rratelimiter.ErrInvalidRate],
// [rratelimiter.ErrInvalidName] or [rratelimiter.ErrNoClient]. ErrInvalidRate means an invalid
// field of a policy, no policy, more than 10, or two policies that share a key.
func New(client *rratelimiter.Client, name string, policies ...Policy) *Limiter {
	p, err := newPlan(client, policies)
	if err != nil {
		return failed(name, err)
	}
	mapped, err := p.client.Mapped(name)
	if err != nil {
		return failed(name, err)
	}
	l := new(Limiter)
	p.open(l, name, prefixOf(mapped))
	l.sealed = inside.New((*handle)(l))
	return l
}

// open opens the limiter with a name, whose keys begin with prefix: a new one, or one that it has opened. If the
// name is "", it is the part of its key in braces: a text of its own would cost each call of a Keyed more.
func (p *plan) open(l *Limiter, name string, prefix keyPrefix) {
	if l.protocol.plan == nil {
		l.protocol.members, l.protocol.keys = append(l.oneMember[:0], p.members...), l.oneKey[:]
		if len(p.members) > 1 {
			l.protocol.keys = make([]string, len(p.members))
		}
		l.setPlan(p, l.protocol.keys)
	}
	id := idOfPolicies
	for i := range l.protocol.members {
		m := &l.protocol.members[i]
		id, l.protocol.keys[i] = extendID(id, prefix, m.described.Key, m.fingerprint)
		if name == "" {
			name = l.protocol.keys[i][len("{") : len(prefix.before)+len(prefix.name)]
		}
		m.name, m.keys = name, l.protocol.keys[i:i+1:i+1]
	}
	l.protocol.name, l.calls.Name, l.calls.ID = name, name, id
	if prefix.before == "" { // the name has braces
		l.crossSlot = p.client.SameSlot(l.protocol.keys...)
	}
}

// setPlan sets the plan of a limiter, and the settings of its calls that follow from it. A change of a key that the
// limiter depends on, the first of each member, ends its prefetches and denials.
func (l *Limiter) setPlan(p *plan, dependsOn []string) {
	l.protocol.plan, l.protocol.dependsOn = p, dependsOn
	l.calls = engine.Limiter{Engine: p.client.Engine, Policy: p.kinds, DependsOn: dependsOn, Protocol: &l.protocol,
		CanPrefetch: p.prefetches, Tick: p.tick}
}

// idOfPolicies begins the ID of a limiter. The first key of each member and its settings follow, with
// the length of the key, so that no name can look like the keys of several.
const idOfPolicies = "policies "

// extendID appends a key and its settings to an ID, and returns the key as well. It is a part of the ID:
// one text for both, since a Keyed makes them for each call.
func extendID(before string, prefix keyPrefix, suffix, settings string) (id, key string) {
	length := len(prefix.before) + len(prefix.name) + len(prefix.after) + len(suffix)
	id = before + strconv.Itoa(length) + " " + prefix.before + prefix.name + prefix.after + suffix + " " + settings + "\n"
	end := len(id) - len(settings) - len(" \n")
	return id, id[end-length : end]
}

// failed returns a limiter whose calls fail.
func failed(name string, err error) *Limiter {
	l := &Limiter{protocol: protocol{plan: new(plan), name: name}, err: err}
	l.sealed = inside.New((*handle)(l))
	return l
}

// Name returns the name with which the limiter was opened.
func (l *Limiter) Name() string { return l.protocol.name }

// check returns the error that needs no call to Redis.
func (l *Limiter) check(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	if l.protocol.plan == nil {
		return fmt.Errorf("%w: open a Limiter with New", rratelimiter.ErrNoClient)
	}
	if l.crossSlot != nil && l.protocol.plan.client.Engine.Cluster() {
		return l.crossSlot
	}
	return ctx.Err()
}

// checkPermits is check for a call that takes permits.
func (l *Limiter) checkPermits(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", rratelimiter.ErrInvalidPermits, permits,
			l.Name())
	}
	if err := l.check(ctx); err != nil || permits <= l.protocol.plan.most {
		return err
	}
	err := l.protocol.AboveLimit(permits, l.protocol.plan.most)
	if permits > engine.MaxPermits {
		err = fmt.Errorf("%w: %w", rratelimiter.ErrInvalidPermits, err)
	}
	l.calls.ReportDenial(ctx, permits, err)
	return err
}

// sealed is the handle of a Limiter.
type sealed = inside.Sealed

// handle is a Limiter for other packages.
type handle Limiter

// Try takes permits that are free now.
func (h *handle) Try(ctx context.Context, ask engine.Ask, result *engine.Result) error {
	l := (*Limiter)(h)
	if err := l.checkPermits(ctx, ask.Permits); err != nil {
		return err
	}
	_, err := l.calls.Try(ctx, ask, result)
	if err == nil && l.protocol.plan.redisson {
		l.recountIfDue()
	}
	return err
}

// Wait waits for permits. Without a deadline, it ends with ctx.
func (h *handle) Wait(ctx context.Context, ask engine.Ask, deadline time.Time, result *engine.Result) (bool, error) {
	l := (*Limiter)(h)
	if err := l.checkPermits(ctx, ask.Permits); err != nil {
		return false, err
	}
	granted, err := l.calls.Wait(ctx, ask, deadline, result)
	if err == nil && l.protocol.plan.redisson {
		l.recountIfDue()
	}
	return granted, err
}

// ChargeMore returns the call that charges what a settlement has used beyond the permits that it has taken.
func (h *handle) ChargeMore() receipt.Charge {
	l := (*Limiter)(h)
	return func(ctx context.Context, permits int64) error {
		if err := l.check(ctx); err != nil {
			return err
		}
		return l.chargeMore(ctx, permits, "")
	}
}

// Node returns the engine and the first key.
func (h *handle) Node() (g *engine.Engine, key string, ok bool) {
	if h == nil || h.err != nil || len(h.protocol.keys) == 0 {
		return nil, "", false
	}
	return h.protocol.plan.client.Engine, h.protocol.keys[0], true
}

// Members returns the limiter of each policy.
func (h *handle) Members() []inside.Member {
	if h == nil {
		return nil
	}
	all := make([]inside.Member, len(h.protocol.members))
	for i, p := range (*Limiter)(h).Policies() {
		m := h.protocol.members[i]
		if all[i] = (inside.Member{Name: m.name, Policy: p}); m.redisson != nil {
			all[i] = inside.MemberOf(m.name, m.redisson.Initial)
		}
	}
	return all
}

// recountIfDue corrects drift of the limiters of Redisson's layout, which the scripts of a join do not.
func (l *Limiter) recountIfDue() {
	for i := range l.protocol.members {
		if r := l.protocol.members[i].redisson; r != nil {
			r.RecountIfDue()
		}
	}
}

// TryAcquire takes permits if every policy has them free now, and reports whether it did. It never
// waits.
//
// Errors: [rratelimiter.ErrInvalidPermits] outside 1 to 4294967295;
// [rratelimiter.ErrPermitsExceedRate] for more than a policy can ever grant, or than 4294967295;
// *[rratelimiter.StateError] if a key holds other data. If Redis fails during the call, the permits
// may still be taken.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	var result engine.Result
	err := (*handle)(l).Try(ctx, engine.Ask{Permits: permits}, &result)
	return result.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers for a user of the caller. Of several policies,
// RetryAfter and ResetAfter are the longest. Limit and Remaining are those of the policy that
// denies for longest; if all grant, those of the policy with the fewest permits left.
func (l *Limiter) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	var result engine.Result
	err := (*handle)(l).Try(ctx, engine.Ask{Permits: permits, Detail: true}, &result)
	return rratelimiter.Decision(result.Decision), err
}

// TakeUpTo takes as many permits as are free now, at most so many, and returns how many it took: 0
// if none is free. It never waits. Several policies grant the same number, the least that one of
// them has free. A [Smooth] that is free grants all of them, as Take does.
//
// The Decision is that of Take. If it is not allowed, RetryAfter is the time until one permit is
// free. Permits may exceed what a policy can ever grant; outside 1 to 4294967295 they are
// [rratelimiter.ErrInvalidPermits]. Other errors are those of [Limiter.TryAcquire].
func (l *Limiter) TakeUpTo(ctx context.Context, permits int64) (granted int64, decision rratelimiter.Decision,
	err error) {
	if permits < 1 || permits > engine.MaxPermits {
		return 0, decision, fmt.Errorf("%w: up to %d permits of %q requested, want 1 to 4294967295",
			rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return 0, decision, err
	}
	var result engine.Result
	err = (*handle)(l).Try(ctx, engine.Ask{Permits: 1, UpTo: min(permits, l.protocol.plan.most), Detail: true}, &result)
	return result.Granted, rratelimiter.Decision(result.Decision), err
}

// TakeEach is [Limiter.Take] with a Decision for each policy, in their order. Allowed reports
// whether that policy had the permits free. They were taken if all policies had.
func (l *Limiter) TakeEach(ctx context.Context, permits int64) ([]rratelimiter.Decision, error) {
	var result engine.Result
	err := (*handle)(l).Try(ctx, engine.Ask{Permits: permits, Detail: true, Each: true}, &result)
	return decisions(result.Parts), err
}

func decisions(answers []engine.Decision) []rratelimiter.Decision {
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
// reports whether it did. It queues with callers of Acquire. If the permits cannot be free in time,
// it returns false at once, so a loop on it does not wait: use Acquire there. Permits that others may
// return are not foreseen. The timeout counts from the call, and no permit is granted after it. A
// timeout of 0 or below is one try, like TryAcquire. If Redis has not replied by then, the error is
// [context.DeadlineExceeded].
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout <= 0 {
		return l.TryAcquire(ctx, permits)
	}
	deadline := time.Now().Add(timeout)
	return (*handle)(l).Wait(ctx, engine.Ask{Permits: permits}, deadline, new(engine.Result))
}

// TakeWithin is [Limiter.TryAcquireWithin] with the numbers of [Limiter.Take]. Those of a grant are of the end
// of the wait. Those of a denial are of the last reply of Redis. RetryAfter of a denial at once is the time until the
// permits could be free behind the callers that wait, and at the timeout until they could be free. With an error,
// the Decision is zero.
func (l *Limiter) TakeWithin(ctx context.Context, permits int64, timeout time.Duration) (rratelimiter.Decision, error) {
	if timeout <= 0 {
		return l.Take(ctx, permits)
	}
	var result engine.Result
	deadline := time.Now().Add(timeout)
	if _, err := (*handle)(l).Wait(ctx, engine.Ask{Permits: permits, Detail: true}, deadline, &result); err != nil {
		return rratelimiter.Decision{}, err
	}
	return rratelimiter.Decision(result.Decision), nil
}

// Acquire waits until permits are free and takes them. Callers that wait for one name on one Client
// are served first come, first served, a large request before smaller ones behind it.
//
// Nothing is booked in Redis for a caller that waits. The Client asks when its first caller can be
// served, and after five seconds at the latest, since other Clients may have returned permits. So
// callers that leave, and a program that ends, keep nothing from others.
//
// Clients whose callers wait for one limiter get equal shares, whatever their distance from Redis. One that
// wants less gets all of it.
//
// A slow link costs a waiter of a bucket nothing: its grant is dated when the permits came free. That is at most
// the time of the last calls earlier, 10 ms to a second, and never before the caller came. So in any span t, waiters
// get at most the capacity, and the rate for t and the time of a call.
//
// Acquire ends with ctx. If the permits cannot be had before the deadline of ctx, it fails at once
// with an error that is [context.DeadlineExceeded]. Permits that others may return are not foreseen.
// An Acquire that fails holds no permits.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	_, err := (*handle)(l).Wait(ctx, engine.Ask{Permits: permits}, time.Time{}, new(engine.Result))
	return err
}
