package rratelimiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// protocol is a Limiter as the engine sees it: how the acquire script of script.lua is asked.
type protocol Limiter

// Call is the acquire script, or grantScript in its place where all is expected to be granted and nobody wants to know more. It is given
// the keys of an Overall limiter alone where the limiter is taken for one: two keys less are a tenth of what a call costs the server.
// Where it is not one, the script asks for the others.
func (p *protocol) Call(b *engine.Batch) (script *engine.Script, keys []string) {
	script, keys = acquireScript, p.keys[:]
	if b.Lease.Span > 0 {
		script = leaseScript
	} else if _, detail := b.Wants(); !detail && !b.Ordered && !p.client.alike.denied.has(p.calls.Name) {
		script = grantScript
	}
	if _, shared := p.guess(); shared && !b.AllKeys {
		keys = keys[:sharedKeys]
	}
	return script, keys
}

// Arguments makes the arguments of the acquire script, all in one string, since a call should cost as little as it can.
func (p *protocol) Arguments(b *engine.Batch, now time.Time) {
	total, detail := b.Wants()
	text := p.client.engine.AppendMillis(b.Text[:0], now)
	nowEnd := len(text)
	text = appendMember(text, total)
	memberEnd := len(text)
	text = p.appendGuess(text, now)
	guessEnd := len(text)
	if total != 1 || b.Lease.Span > 0 {
		text = strconv.AppendInt(text, total, 10)
	}
	totalEnd := len(text)
	if len(b.Requests) > 1 || b.Ordered || detail {
		text = engine.AppendRuns(text, b.Requests)
	}
	runsEnd := len(text)
	switch {
	case b.Ordered:
		text = append(text, "ow"...)
	case b.Full:
		text = append(text, "dwa"...)
	case detail:
		text = append(text, "dw"...)
	}
	b.Text = text
	all := string(text)
	b.Args = append(b.Args[:0], all[:nowEnd], all[nowEnd:memberEnd])
	if memberEnd < len(all) {
		b.Args = append(b.Args, all[memberEnd:guessEnd])
	}
	if guessEnd < len(all) {
		b.Args = append(b.Args, all[guessEnd:totalEnd])
	}
	if totalEnd < len(all) || b.Lease.Span > 0 {
		b.Args = append(b.Args, all[totalEnd:runsEnd], "", all[runsEnd:])
	}
	if b.Lease.Span > 0 {
		if len(b.Requests) == 0 {
			b.Args[runsArg] = " "
		}
		b.Args = append(b.Args, strconv.FormatInt(b.Lease.Permits, 10), strconv.FormatInt(b.Lease.Span.Milliseconds(), 10))
	}
}

// appendMember appends the member of a grant of n permits: a length, as many random bytes, and the low 32 bits
// of n, little-endian.
func appendMember(text []byte, n int64) []byte {
	const random = 16
	text = append(text, random)
	for range random / 8 {
		bits := rand.Uint64()
		for range 8 {
			text = append(text, byte(bits))
			bits >>= 8
		}
	}
	return appendUint32(text, n)
}

func appendUint32(text []byte, n int64) []byte {
	return append(text, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

// GiveBack frees what was granted, as a part of a batch's grant, to callers that had gone. Where that fails, or the grant
// is so large that it became several members, the permits come back by themselves after the interval.
func (p *protocol) GiveBack(b *engine.Batch) func(context.Context) {
	if b.Granted > math.MaxUint32 {
		return nil
	}
	permits, granted := b.LostPermits, b.Granted
	random := b.Args[memberArg][:len(b.Args[memberArg])-4]
	return func(ctx context.Context) {
		_ = (*Limiter)(p).giveBack(ctx, permits, random, granted)
	}
}

// giveBack frees permits of the grant whose member begins so and was of so many permits. It names the grant, rather than
// releasing the oldest one: the answer may have come so late that the grant has left the window, or from a master that has
// lost its slots since.
func (l *Limiter) giveBack(ctx context.Context, permits int64, random string, granted int64) error {
	grant := string(appendUint32([]byte(random), granted))
	rest := ""
	if granted > permits {
		rest = string(appendUint32([]byte(random), granted-permits))
	}
	_, err := engine.Returning(ctx, l.client.engine, l.keys[:1], func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return l.pages(ctx, giveBackScript, []string{l.client.nowText(), strconv.FormatInt(permits, 10), grant, rest})
	})
	return err
}

// AboveLimit says that so many permits can never be granted.
func (p *protocol) AboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested, the rate of %q is %d", ErrPermitsExceedRate, permits, p.calls.Name, limit)
}

// Explain makes the error of a Redis call say which limiter it is about.
func (p *protocol) Explain(ctx context.Context, err error) error {
	return (*Limiter)(p).explain(ctx, err)
}
