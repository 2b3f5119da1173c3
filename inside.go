package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

func init() {
	inside.Open = func(client any) (inside.Client, error) {
		c, ok := client.(*Client)
		if !ok || c == nil || c.redis == nil {
			return inside.Client{}, fmt.Errorf("%w: create the Client with New and a rueidis.Client", ErrNoClient)
		}
		return c.inside(), c.err
	}
	inside.OpenLimiter = func(limiter any) (inside.Limiter, error) {
		l, ok := limiter.(*Limiter)
		if !ok || l == nil || l.wire.client == nil {
			return inside.Limiter{}, fmt.Errorf("%w: open a Limiter with Client.Limiter", ErrNoClient)
		}
		if l.err != nil {
			return inside.Limiter{}, l.err
		}
		return inside.Limiter{
			Client: l.wire.client.inside(), Keys: l.wire.keys[:], Types: keyTypes[:], Initial: l.wire.initial,
			Member:   func() string { return new(Client).member(0, false) },
			Forecast: l.wire.client.forecastOf, Release: l.Release,
			Refund: func(ctx context.Context, permits int64, member string, granted int64, at string) error {
				return l.wire.refund(ctx, permits, grantOf(member), granted, at)
			},
			CountDrift: func() { l.wire.countDrift(l.wire.client.nowText()) },
			Recount: func(ctx context.Context) error {
				_, _, err := l.wire.recount(ctx, l.wire.client.nowText())
				return err
			},
		}, nil
	}
}

func (c *Client) inside() inside.Client {
	return inside.Client{Engine: c.engine, Names: (*naming)(c), WaitJitter: c.waitJitter, Maps: c.mapName != nil}
}

// naming maps names for package limit.
type naming Client

// Mapped returns a name as keys contain it.
func (n *naming) Mapped(name string) (string, error) { return (*Client)(n).mapped(name) }

// SameSlot returns ErrCrossSlot if the keys, and those that begin with their hash tag, do not share a slot.
func (n *naming) SameSlot(keys ...string) error {
	if tag := redisx.Tag(keys[0]); tag == keys[0] {
		keys = append(slices.Clip(keys), "{"+tag+"}:")
	}
	return checkSlots(keys...)
}

// forecastOf returns the forecast of a limiter in a reply of package limit's scripts.
func (c *Client) forecastOf(r inside.Reply) engine.Forecast {
	f := &forecast{rate: r.Rate, interval: millis(r.Interval), reset: millis(r.Reset), free: r.Free,
		expires: millis(r.KeepAlive)}
	if jitter := min(c.waitJitter, f.interval/5); jitter > 0 {
		f.lag = rand.N(jitter)
	}
	for pair := 0; pair+1 < len(r.Returns); pair += 2 {
		f.add(r.Returns[pair], r.Returns[pair+1])
	}
	return f
}
