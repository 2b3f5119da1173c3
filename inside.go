package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// sealed is the parts of a Client or a Limiter for the packages of this module.
type sealed = inside.Sealed

// parts returns the parts of a Client.
func (c *Client) parts() inside.Client {
	return inside.Client{Engine: c.engine, WaitJitter: c.waitJitter, Maps: c.mapName != nil, Mapped: c.mapped,
		SameSlot: sameSlot, Err: c.err}
}

// handle is a Limiter for other packages.
type handle Limiter

// Try takes permits that are free now.
func (h *handle) Try(ctx context.Context, ask engine.Ask, result *engine.Result) error {
	l := (*Limiter)(h)
	if err := l.checkAcquire(ctx, ask.Permits); err != nil {
		return err
	}
	_, err := l.calls.Try(ctx, ask, result)
	return err
}

// Wait waits for permits. Without a deadline, it ends with ctx.
func (h *handle) Wait(ctx context.Context, ask engine.Ask, deadline time.Time, result *engine.Result) (bool, error) {
	l := (*Limiter)(h)
	if err := l.checkAcquire(ctx, ask.Permits); err != nil {
		return false, err
	}
	return l.calls.Wait(ctx, ask, deadline, result)
}

// Node returns the engine and the key of the configuration.
func (h *handle) Node() (g *engine.Engine, key string, ok bool) {
	if h == nil || h.protocol.client == nil || h.err != nil {
		return nil, "", false
	}
	return h.protocol.client.engine, h.protocol.keys[configKey], true
}

// Members returns the limiter.
func (h *handle) Members() []inside.Member {
	if _, _, ok := h.Node(); !ok {
		return nil
	}
	return []inside.Member{inside.MemberOf(h.protocol.name, h.protocol.initial)}
}

// ChargeMore returns nil: a limiter of Redisson's layout cannot owe permits.
func (h *handle) ChargeMore() receipt.Charge { return nil }

// Open returns the parts of the limiter for a limit.Join.
func (h *handle) Open() (inside.Limiter, error) {
	l := (*Limiter)(h)
	if l == nil || l.protocol.client == nil {
		return inside.Limiter{}, fmt.Errorf("%w: open a Limiter with Client.Limiter", ErrNoClient)
	}
	if l.err != nil {
		return inside.Limiter{}, l.err
	}
	client := l.protocol.client.parts()
	return inside.Limiter{
		Client: client, Keys: l.protocol.keys[:], Types: keyTypes[:], Initial: l.protocol.initial,
		Member:   func() string { return new(Client).member(0, false) },
		Forecast: l.protocol.client.forecastOf, Release: l.Release,
		Refund: func(ctx context.Context, permits int64, member string, granted int64, at string) error {
			return l.protocol.refund(ctx, permits, grantOf(member), granted, at)
		},
		RecountIfDue: func() { l.protocol.recountIfDue(time.Now(), l.protocol.client.nowText()) },
		Recount: func(ctx context.Context) error {
			_, _, err := l.protocol.recount(ctx, l.protocol.client.nowText(), false)
			return err
		},
	}, client.Err
}

// sameSlot returns ErrCrossSlot if the keys, and those that begin with their hash tag, do not share a slot.
func sameSlot(keys ...string) error {
	if tag := redisx.Tag(keys[0]); tag == keys[0] {
		keys = append(slices.Clip(keys), "{"+tag+"}:")
	}
	return shareSlot("use one non-empty hash tag in all names, as in {tenant}:requests and {tenant}:tokens", keys)
}

// forecastOf returns the forecast of a limiter in a reply of package limit's scripts.
func (c *Client) forecastOf(r inside.Reply) engine.Forecast {
	f := &forecast{rate: r.Rate, interval: millis(r.Interval), reset: millis(r.Reset), free: r.Free,
		expires: millis(r.KeepAlive)}
	// Redisson's waiters ask some 10 to 30 ms late: a longer time would leave the permits to them. On average, a
	// fortieth of the interval costs an eightieth of the pace.
	if jitter := min(c.waitJitter, f.interval/40, 20*time.Millisecond); jitter > 0 {
		f.lag = rand.N(jitter)
	}
	for pair := 0; pair+1 < len(r.Returns); pair += 2 {
		f.add(r.Returns[pair], r.Returns[pair+1])
	}
	return f
}
