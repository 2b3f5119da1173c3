// Package gate decides the requests of a protocol, for the middleware of HTTP and gRPC and the rules. A [Visit] is
// one request, from the choice of its limiter to the settlement of its cost. Package outage asks the limiters.
//
//	gate.go         a request, what decides all requests of one middleware, and the ready-made choosers
//	outgoing.go     requests of a client, which follows what servers answer
//	joint.go        limiters that one call of Redis decides
//	description.go  policies, as clients see them
//	settings.go     the options that HTTP and gRPC have in common
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Request is a request of a protocol: a *http.Request, or a [Call] of gRPC.
type Request[R any] interface {
	Context() context.Context
	WithContext(ctx context.Context) R
}

// Call is a call of gRPC in its context. C describes the call.
type Call[C any] struct {
	In   context.Context //nolint:containedctx // as in a http.Request
	Call C
}

// Context returns the context of the call.
func (c Call[C]) Context() context.Context { return c.In }

// WithContext returns the call in another context.
func (c Call[C]) WithContext(ctx context.Context) Call[C] { return Call[C]{ctx, c.Call} }

// Chooser chooses what limits a request.
type Chooser[R Request[R]] interface {
	// Choose returns the visits of a request in the order in which they are decided, each with its Choice. It returns
	// none if nothing limits the request. It also returns the request in the context in which its callbacks get it.
	Choose(r R) (R, []Visit[R])
}

// Choice is what limits a request.
type Choice struct {
	Limiter     limit.Joinable
	Description *Description // of the policies of the limiter; nil if there is none
	Permits     int64        // 0 for the Cost of the options
	Settings    *Settings    // nil for those of the gate
	Ban         string       // denies the request in place of a limiter, by this name
	Err         error        // why there is no limiter
}

// Options are the settings of one middleware or interceptor, and the functions of its user. Those that are not set
// have no effect.
type Options[R Request[R]] struct {
	Settings
	Chooser   Chooser[R]
	FromFile  bool // the Chooser has the rules of a file
	Skip      func(R) bool
	Cost      func(R) (int64, error)
	Report    func(R, limit.Outcome)
	Unsettled func(R, error)
}

// Change is an option of a package above httplimit or grpclimit. The method of their Option is not exported, so such a
// package embeds a nil Option beside a Change. [Apply] finds the Change first.
type Change[R Request[R]] func(*Options[R])

// SetOptions changes the options.
func (c Change[R]) SetOptions(all *Options[R]) { c(all) }

// Apply applies options, in order. A nil option has no effect.
func Apply[R Request[R], O any](all *Options[R], options []O, apply func(O)) {
	for _, option := range options {
		if above, ok := any(option).(interface{ SetOptions(all *Options[R]) }); ok {
			above.SetOptions(all)
		} else if any(option) != nil {
			apply(option)
		}
	}
}

// Gate decides the requests of one middleware or interceptor.
type Gate[R Request[R]] struct {
	Options[R]
	guard      *outage.Guard
	caller     string // begins the text of a panic
	maxWaiting int    // without one in the settings

	// paused returns the rest of a pause of outgoing requests, by the name of their limiter. It is nil for a server.
	paused func(name string) (rest time.Duration, inRedis bool)
}

// NewGate returns the gate of a server.
func NewGate[R Request[R]](caller string, o Options[R]) *Gate[R] {
	return &Gate[R]{Options: o, guard: o.OpenGuard(), caller: caller, maxWaiting: defaultMaxWaiting}
}

// Admit decides a request by what is chosen for it, one after another until one denies, and reports each decision. It
// returns the last visit, nil if nothing limits the request. The end of that visit refunds those before a denial.
func (g *Gate[R]) Admit(r R) (last *Visit[R]) {
	if g.Skip != nil && g.Skip(r) {
		return nil
	}
	r, visits := g.Chooser.Choose(r)
	returned := false
	defer func() {
		if !returned && last != nil { // a callback has panicked
			last.end(0, true)
		}
	}()
	for i := range visits {
		v := &visits[i]
		v.Request, v.gate = r, g
		if !g.decide(v) {
			continue
		}
		v.Before, last = last, v
		g.report(v)
		if !v.Answer.Passes() {
			break
		}
	}
	returned = true
	return last
}

// decide decides a visit by its choice. It returns false if the request costs nothing.
func (g *Gate[R]) decide(v *Visit[R]) bool {
	v.finalCost.Store(unsettled)
	if v.Settings == nil {
		v.Settings = &g.Settings
	}
	s, err := v.Settings, v.Err
	if err == nil && v.Permits == 0 {
		if v.Permits = 1; g.Cost != nil {
			if v.Permits, err = g.Cost(v.Request); err == nil && v.Permits == 0 {
				return false
			}
		}
	}
	switch {
	case err != nil:
		v.Answer = g.withoutLimiter(s, err)
	case v.Ban != "":
		v.Answer = outage.Answered(limit.Rejected, nil)
	default:
		if v.Description.unknownPolicies {
			MustShare(g.caller, s.Mode, v.Limiter)
		}
		d := outage.Demand{Limiter: v.Limiter, Permits: v.Permits, Each: g.Follows || len(v.Description.Policies) > 1,
			Mode: s.Mode, MaxWaiting: cmp.Or(s.MaxWaiting, g.maxWaiting)}
		if !s.Shadow {
			d.Wait, d.Paused = s.Wait, g.paused
		}
		begin := time.Now()
		if v.Answer = g.guard.Decide(v.Request.Context(), d); d.Wait > 0 && g.paused == nil {
			v.overLimit(begin)
		}
	}
	return true
}

// withoutLimiter decides a request that has no limiter or no valid cost.
func (g *Gate[R]) withoutLimiter(s *Settings, err error) outage.Answer {
	if g.paused == nil && !s.InvalidFails && errors.Is(err, limit.ErrInvalidRequest) {
		return outage.Answered(limit.Invalid, err) // in every mode: a client gains nothing by leaving something out
	}
	return outage.ByMode(s.Mode, err)
}

// report completes the outcome of a visit, and reports it.
func (g *Gate[R]) report(v *Visit[R]) {
	if h := v.Answer.Receipt.Hold; h != nil && !v.Settings.EndUnseen {
		h.Start(func(err error) {
			defer func() { _ = recover() }() // of the callback
			g.reportUnsettled(v.Request, err)
		})
	}
	o := &v.Answer.Outcome
	if o.Limiter = v.Ban; v.Limiter != nil {
		o.Limiter = v.Limiter.Name()
	}
	o.Shadow, o.Cost, v.At = v.Settings.Shadow, v.Permits, time.Now()
	if o.Result == limit.Rejected {
		for _, i := range v.Description.Denying(o) {
			o.Violated = append(o.Violated, v.Description.Policy(i).Shown)
		}
	}
	if g.Report != nil {
		g.Report(v.Request, *o)
	}
}

func (g *Gate[R]) reportUnsettled(r R, err error) {
	if err != nil && g.Unsettled != nil {
		g.Unsettled(r, err)
	}
}

// Visit is a request that one limiter decides, from the choice of that limiter to the end of the request. The rules of
// a file may choose several limiters for a request, and so several visits. Each stage sets fields, which later ones
// read:
//
//  1. Choose: the Choice.
//  2. Admit: the Request and its gate, and the Settings and Permits that the Choice leaves open. The Guard sets the
//     Answer. Then Admit reports the Outcome, and links the visits of a request by Before.
//  3. The handler of an admitted request, in [Visit.Context]: by Settle the finalCost.
//  4. [Visit.End] settles the finalCost, and returns the places that the request held.
type Visit[R Request[R]] struct {
	Choice
	Request R // in the context that the Chooser has returned
	Answer  outage.Answer
	At      time.Time // of the Answer
	Before  *Visit[R] // by which the request was decided and admitted before; or nil

	gate      *Gate[R]
	finalCost atomic.Int64 // or one of the two constants below 0
}

const (
	unsettled       = -1
	handlerReturned = -2
)

// The keys of visits in contexts. A gRPC server may be a handler of HTTP, so each protocol has a key.
type (
	visitKey[R any] struct{}
	fileVisitKey    struct{} // of a visit that the rules of a file have decided
)

// Context returns the context of the handler that gets the request, or of a refusal. [OutcomeOf] and [SettleIn] find
// the visit there.
func (v *Visit[R]) Context() context.Context {
	ctx := context.WithValue(v.Request.Context(), visitKey[R]{}, v)
	if v.gate.FromFile {
		ctx = context.WithValue(ctx, fileVisitKey{}, v)
	}
	return ctx
}

// OutcomeOf returns the Outcome of the innermost visit of a context, false for none.
func OutcomeOf[R Request[R]](ctx context.Context) (limit.Outcome, bool) {
	v, ok := ctx.Value(visitKey[R]{}).(*Visit[R])
	if !ok {
		return limit.Outcome{}, false
	}
	return v.Answer.Outcome, true
}

// overLimit makes a denial of a request that was over its limit at first, and whose context ended while it
// waited, unless its client has gone.
func (v *Visit[R]) overLimit(begin time.Time) {
	a := &v.Answer
	if a.Result != limit.Canceled || a.Decision.RetryAfter <= 0 ||
		errors.Is(v.Request.Context().Err(), context.Canceled) {
		return
	}
	a.Result = limit.Rejected
	a.Decision.RetryAfter = max(1, a.Decision.RetryAfter-time.Since(begin))
}

// SettleIn sets the final cost of the innermost visit of a context. It does nothing for a request that
// has taken no permits. Errors begin with the name of the package.
func SettleIn[R Request[R]](ctx context.Context, pkg string, cost int64) error {
	return settle(ctx.Value(visitKey[R]{}), pkg, cost)
}

// SettleByFile is SettleIn for the innermost visit that the rules of a file have decided.
func SettleByFile(ctx context.Context, pkg string, cost int64) error {
	return settle(ctx.Value(fileVisitKey{}), pkg, cost)
}

func settle(visit any, pkg string, cost int64) error {
	var err error
	if cost < 0 {
		err = fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	} else if v, ok := visit.(interface{ settle(cost int64) error }); ok {
		err = v.settle(cost)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

// settle sets the final cost of a visit and of those before it.
func (v *Visit[R]) settle(cost int64) (err error) {
	if !v.Answer.Passes() {
		return nil
	}
	for ; v != nil; v = v.Before {
		if failed := v.setCost(cost); failed != nil {
			err = errors.Join(failed, err)
		}
	}
	return err
}

// maxPermits bounds what one settlement charges.
const maxPermits = 1 << 53

// setCost stores the final cost. After the handler, end settles it by Guard.Settle.
func (v *Visit[R]) setCost(cost int64) error {
	if v.Answer.Result != limit.Acquired {
		return nil
	}
	taken := v.Permits
	if cost-taken > maxPermits {
		return fmt.Errorf("%w: a cost of %d to settle: at most 2^53 more permits can be charged",
			rratelimiter.ErrInvalidPermits, cost)
	}
	if !v.canSettle(cost) {
		return fmt.Errorf("a limiter of type %T has taken %d permits and cannot settle for %d: %w", v.Limiter,
			taken, cost, errors.ErrUnsupported)
	}
	for {
		before := v.finalCost.Load()
		if before == handlerReturned {
			return errors.New("a final cost was set by Settle after the handler has returned")
		}
		if v.finalCost.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// canSettle reports whether the cost of a granted request can be changed to a final one.
func (v *Visit[R]) canSettle(cost int64) bool {
	switch taken := v.Permits; {
	case cost == taken || v.Answer.Local:
		return true
	case cost > taken:
		return outage.CanCharge(v.Limiter)
	}
	return v.Answer.Receipt.Refund != nil
}

// End settles the final cost of a request after its handler has returned, and returns what it has held.
// status is that of the response, 0 if it is unknown. If the request was refused, the visits before it are
// refunded.
//
// A client that has its response may send the next request at once. So if the grant left no place free, End waits
// until its place is returned, for at most a deadline.
func (v *Visit[R]) End(status int) {
	if v.Answer.Receipt.Hold != nil || v.Before != nil {
		defer v.waitForPlaces()
	}
	v.end(status, !v.Answer.Passes())
}

// end ends a visit and those before it, also if a callback panics. With free, the request costs nothing.
func (v *Visit[R]) end(status int, free bool) {
	if v.Before != nil {
		defer v.Before.end(status, free)
	}
	s, cost := v.Settings, v.finalCost.Swap(handlerReturned)
	if h := v.Answer.Receipt.Hold; h != nil && (!s.EndUnseen || free || cost >= 0) {
		h.Return()
	}
	if free || cost == unsettled && !s.EndUnseen && status > 0 && s.Refunds != nil && s.Refunds(status) {
		cost = 0
	}
	if cost >= 0 {
		v.gate.reportUnsettled(v.Request, v.gate.guard.Settle(v.Request.Context(), v.Limiter, v.Answer, cost))
	}
}

// waitForPlaces waits until the places are returned whose grants have left none free.
func (v *Visit[R]) waitForPlaces() {
	var ctx context.Context
	for g := v.gate; v != nil; v = v.Before {
		h := v.Answer.Receipt.Hold
		if h == nil || !h.Full || v.Settings.EndUnseen || g.guard.Down(v.Limiter) {
			continue
		}
		if ctx == nil {
			limited, stop := context.WithTimeout(context.WithoutCancel(v.Request.Context()), g.guard.Deadline())
			defer stop()
			ctx = limited
		}
		_ = h.Wait(ctx) // the Client repeats the return if it has failed
	}
}

// Func is a Chooser by a function, which returns the limiter of a request.
type Func[R Request[R]] func(R) (limit.Joinable, error)

// Choose returns the visit of a request, none if the function returns no limiter.
func (choose Func[R]) Choose(r R) (R, []Visit[R]) {
	limiter, err := choose(r)
	l, described := limiter.(describedLimiter)
	if err == nil && !described && outage.IsNil(limiter) {
		return r, nil
	}
	one := make([]Visit[R], 1)
	switch v := &one[0]; {
	case err != nil:
		v.Err = err
	case described:
		v.Limiter, v.Description = l.Joinable, l.description
	default:
		v.Limiter, v.Description = limiter, descriptionOf(limiter)
	}
	return r, one
}

// All returns a chooser of one limiter, with the description of its policies, or of none for a nil limiter. It panics
// if every call would fail. The text begins with the call.
func All[R any](call string, l limit.Joinable) func(R) (limit.Joinable, error) {
	if outage.IsNil(l) {
		return func(R) (limit.Joinable, error) { return nil, nil }
	}
	MustCheck(call, l)
	d := *descriptionOf(l)
	d.unknownPolicies = !outage.HasShare(l)
	l = describedLimiter{l, &d}
	return func(R) (limit.Joinable, error) { return l, nil }
}

// Each returns a chooser of the limiter of a key, with a description of the policies that all keys share. It panics
// if every call would fail, and sends nothing to Redis. An empty key is an error, so that requests never share a
// limiter by accident. Texts begin with the call.
func Each[R any, K ~func(R) (string, error)](call string, client *rratelimiter.Client, name string, key K,
	policies []limit.Policy) func(R) (limit.Joinable, error) {
	d := Describe(policies...)
	limiters := limit.NewKeyed(client, name, d.Policies...)
	return each(call, key, outage.CheckLimiter(limiters.Limiter("key")), func(key string) (limit.Joinable, error) {
		return describedLimiter{limiters.Limiter(identity.EncodeKey(key)), d}, nil
	})
}

// EachRedisson is Each for limiters in Redisson's layout, whose names are the prefix and the key. A rate without a
// KeepAlive is invalid, since Redis would keep every key for ever.
func EachRedisson[R any, K ~func(R) (string, error)](call string, client *rratelimiter.Client, prefix string, key K,
	rate rratelimiter.Rate) func(R) (limit.Joinable, error) {
	initial := rratelimiter.InitialRate(rate)
	var err error
	switch {
	case client == nil:
		err = rratelimiter.ErrNoClient
	case prefix == "":
		err = fmt.Errorf("%w: the prefix is empty", rratelimiter.ErrInvalidName)
	case rate.KeepAlive == 0:
		err = fmt.Errorf("%w: without a KeepAlive, the limiters of all keys stay for ever", rratelimiter.ErrInvalidRate)
	default:
		err = outage.CheckLimiter(client.Limiter(prefix+"key", initial))
	}
	return each(call, key, err, func(key string) (limit.Joinable, error) {
		if len(key) > longestRedissonKey {
			return nil, identity.Invalidf("%s: the key has %d bytes, want at most %d", call, len(key), longestRedissonKey)
		}
		return client.Limiter(prefix+key, initial), nil
	})
}

// longestRedissonKey is the largest number of bytes of a key in Redisson's layout, which has no hash in place
// of a long key. A client may send a key of a MB, which Redis would keep.
const longestRedissonKey = 8 << 10

// each returns a chooser that opens the limiter of a key. It panics with invalid, an error of all of them.
func each[R any, K ~func(R) (string, error)](call string, key K, invalid error,
	open func(key string) (limit.Joinable, error)) func(R) (limit.Joinable, error) {
	if invalid == nil && key == nil {
		invalid = errors.New("the Key is nil: pass ByIP or a function")
	}
	if invalid != nil {
		panic(fmt.Sprintf("%s: %v", call, invalid))
	}
	return func(r R) (limit.Joinable, error) {
		text, err := key(r)
		if err == nil && text == "" {
			err = fmt.Errorf("%s: the key is empty", call)
		}
		if err != nil {
			return nil, err
		}
		return open(text)
	}
}
