package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// timeArg is the index of the time in the arguments of a script, Unix milliseconds: ARGV[1]. It is "" for
// the server's clock.
const timeArg = 0

// memberArg is the index of the member of a grant: ARGV[2] of the acquire script.
const memberArg = 1

// The flags of the acquire script, as ARGV[7] has them.
const (
	flagDetail   = "d"
	flagWaits    = "w"
	flagOrdered  = "o"
	flagAllWaits = "a"
)

// Prepare sets the call of the acquire script. A PerClient limiter has no waiters of other Clients.
func (p *protocol) Prepare(b *engine.Batch, now time.Time) {
	total, detail := b.Wants()
	prefetches := b.Prefetch.Span > 0
	hint, _, interval, perClient := p.hint().rate.get()
	switch b.Script, b.Keys = acquireScript, p.keys[:sharedKeys]; {
	case perClient: // see namedKeys
		b.Keys = p.keys[:]
	case b.Claim.ID != "":
		b.Script, b.Keys = waitScript, append(slices.Clip(b.Keys), p.keys.waiters())
	}
	ended, permits, flags, runs := "", "", "", ""
	if hint != "" && !p.client.engine.ServerTime() {
		ended = strconv.FormatInt(now.UnixMilli()-interval, 10)
	}
	if total != 1 || prefetches {
		permits = strconv.FormatInt(total, 10)
	}
	switch {
	case b.Ordered && detail:
		flags = flagDetail + flagOrdered + flagWaits
	case b.Ordered:
		flags = flagOrdered + flagWaits
	case b.Full:
		flags = flagDetail + flagWaits + flagAllWaits
	case detail:
		flags = flagDetail + flagWaits
	}
	switch {
	case len(b.Requests) == 0:
		runs = " " // a prefetch alone, and not a request for one permit
	case len(b.Requests) > 1 || b.Ordered || detail:
		runs = engine.Runs(b.Requests)
	}
	cursor := "" // of the call before: Answer sets it
	b.Args = append(b.Args[:0], p.client.engine.Millis(now), p.client.member(total, prefetches), hint, ended, permits,
		cursor, flags, runs)
	if prefetches || b.Claim.ID != "" {
		b.Args = append(b.Args, strconv.FormatInt(b.Prefetch.Permits, 10),
			strconv.FormatInt(b.Prefetch.Span.Milliseconds(), 10))
	}
	if b.Claim.ID != "" {
		b.Args = append(append(b.Args, b.Claim.ID), p.hint().turns.arguments(b.Claim.Late, b.Claim.Rest, millis(interval),
			p.client.waitJitter, now.UnixMilli())...)
	}
	for b.Args[len(b.Args)-1] == "" {
		b.Args = b.Args[:len(b.Args)-1]
	}
}

// Receipt returns the refund of the grant of a call.
func (p *protocol) Receipt(b *engine.Batch) receipt.Refund {
	at := b.Args[timeArg] // "" for the server's clock
	if f, ok := b.Forecast.(*forecast); ok {
		at = strconv.FormatInt(f.now, 10)
	}
	return p.receipt(grantOf(b.Args[memberArg]), b.Granted, at)
}

// Hold returns nil: the permits return by themselves.
func (p *protocol) Hold(*engine.Batch, int, int64) *hold.Hold { return nil }

// receipt returns the refund of a grant, as grantOf has it. It was of granted permits. Its score is at, or ""
// if that is unknown.
func (p *protocol) receipt(grant string, granted int64, at string) receipt.Refund {
	return func(ctx context.Context, permits int64) error { return p.refund(ctx, permits, grant, granted, at) }
}

// refund returns permits of a grant, as receipt has it. It names the grant, instead of releasing the
// oldest one: that of a late reply may have expired, or may be lost with a master that failed.
func (p *protocol) refund(ctx context.Context, permits int64, grant string, granted int64, at string) error {
	rest := ""
	if granted > permits {
		rest = memberOf(grant, granted-permits)
	}
	args := []string{p.client.nowText(), strconv.FormatInt(permits, 10), memberOf(grant, granted), rest, at}
	_, err := engine.RunRefund(ctx, p.client.engine, p.keys[:1],
		func(ctx context.Context) (redisx.Reply, error) { return p.pages(ctx, refundScript, args) })
	if errors.Is(err, ErrNotInitialized) || errors.Is(err, redisx.ErrRanBefore) {
		return nil // the grant is gone with the rate, or its permits are back
	}
	return err
}

// AboveLimit returns the error of a request above the rate.
func (p *protocol) AboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, at most %d can be granted", ErrPermitsExceedRate, permits, p.name, limit)
}
