package engine

import (
	"context"
	"time"
)

// Observer receives the events of an Engine, as rratelimiter.Observer documents. Its functions may
// be nil.
type Observer struct {
	Decision  func(context.Context, DecisionInfo)
	RedisCall func(context.Context, RedisCallInfo)
	Waiting   func(context.Context, WaitingInfo)
	Places    func(PlacesInfo)
}

// DecisionInfo is the result of a call for permits.
type DecisionInfo struct {
	Limiter      *Limiter
	Permits      int64
	Granted      bool
	Charged      bool // taken whether they were free or not
	Took, Waited time.Duration
	From         Source // if Err is nil
	Err          error
}

// RedisCallInfo is a call to Redis that asked for permits.
type RedisCallInfo struct {
	Limiter             *Limiter
	Requests            int
	Permits, Prefetched int64
	Took                time.Duration
	Err                 error
	Initial             bool // the call set initial rates

	began time.Time
}

// WaitingInfo is a change of the number of waiters of a limiter.
type WaitingInfo struct {
	Limiter *Limiter
	Change  int
}

// PlacesInfo is a change of the places of an InFlight.
type PlacesInfo struct {
	Name    string // of the InFlight
	Change  int    // of those that the Client holds
	Expired int    // that a call has removed, since their leases have ended
}

// Observation observes a call for permits. The zero Observation reports nothing.
type Observation struct {
	DecisionInfo
	observer *Observer
	began    time.Time
}

// Observe begins to observe a call for permits.
func (l *Limiter) Observe(permits int64) Observation {
	o := l.Engine.observer
	if o == nil {
		return Observation{}
	}
	return Observation{DecisionInfo{Limiter: l, Permits: permits}, o, time.Now()}
}

// Report reports the result of the call. The engine does nothing more for the call after that: a
// hook that panics affects no other caller.
func (v *Observation) Report(ctx context.Context, granted bool, from Source, err error) {
	if o := v.observer; o != nil && o.Decision != nil {
		d := v.DecisionInfo
		d.Granted, d.Took, d.From, d.Err = granted && err == nil, time.Since(v.began), from, err
		o.Decision(ctx, d)
	}
}

// ReportDenial reports a call for permits that was denied without a call to Redis.
func (l *Limiter) ReportDenial(ctx context.Context, permits int64, err error) {
	observation := l.Observe(permits)
	observation.Report(ctx, false, FromRedis, err)
}

// ReportExpired reports places that a call has removed, on a goroutine of its own: the hook may block.
func (g *Engine) ReportExpired(name string, places int) {
	if o := g.observer; o != nil && o.Places != nil && places > 0 {
		go o.Places(PlacesInfo{Name: name, Expired: places})
	}
}

// wait runs wait, and reports its start and its end. The time counts as waiting if wait returns
// true: it waited for permits.
func (v *Observation) wait(ctx context.Context, wait func() (waited bool, err error)) error {
	o := v.observer
	if o == nil {
		_, err := wait()
		return err
	}
	if o.Waiting != nil {
		defer o.Waiting(ctx, WaitingInfo{Limiter: v.Limiter, Change: -1})
		o.Waiting(ctx, WaitingInfo{Limiter: v.Limiter, Change: 1})
	}
	began := time.Now()
	waited, err := wait()
	if waited {
		v.Waited = time.Since(began)
	}
	return err
}

// finish sets the result of a call.
func (c *RedisCallInfo) finish(prefetched int64, err error) {
	if c.Took, c.Err = time.Since(c.began), err; err == nil {
		c.Prefetched = prefetched
	}
}

// report reports a call to the observer, for a limiter that it served.
func (c *RedisCallInfo) report(ctx context.Context, l *Limiter) {
	c.Limiter = l
	l.Engine.observer.RedisCall(ctx, *c)
}

// reportAlone reports a call that served no caller, on a goroutine of its own: the hook may block.
func (c *RedisCallInfo) reportAlone() { go c.report(context.Background(), c.Limiter) }
