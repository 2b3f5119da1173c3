package rratelimiter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// wire is a limiter as Redis has it: its keys, and the calls of the scripts of script.lua. It is
// the engine's Protocol.
type wire struct {
	client *Client
	name   string // as the Limiter was opened
	keys   limiterKeys
	hinted atomic.Pointer[hint]
}

// Call returns the acquire script, or the lease script if the batch asks for a lease. It names only
// the keys of an OVERALL limiter, unless the limiter is known to be PER_CLIENT: fewer keys cost the
// server less time. If the script needs the other keys, it replies so.
func (w *wire) Call(b *engine.Batch) (script *redisx.Script, keys []string) {
	script = acquireScript
	if b.Lease.Span > 0 {
		script = leaseScript
	}
	return script, w.namedKeys(b.AllKeys)
}

// namedKeys returns the keys that a script gets.
func (w *wire) namedKeys(all bool) []string {
	if all || w.hint().isPerClient() {
		return w.keys[:]
	}
	return w.keys[:sharedKeys]
}

// Arguments sets the arguments of the acquire script, or of the lease script if the batch asks for a
// lease.
func (w *wire) Arguments(b *engine.Batch, now time.Time) {
	total, detail := b.Wants()
	hintText, lower, count := w.hint().claimCount(w.millisOf(now))
	a := arguments{text: b.Text[:0]}
	a.text = w.client.engine.AppendMillis(a.text, now)
	a.end()
	a.text = w.client.appendMember(a.text, total, b.Lease.Span > 0)
	a.end()
	a.add(hintText)
	if hintText != "" && !w.client.engine.ServerTime() {
		a.text = strconv.AppendInt(a.text, lower, 10)
	}
	a.end()
	if total != 1 || b.Lease.Span > 0 {
		a.text = strconv.AppendInt(a.text, total, 10)
	}
	a.end()
	a.end() // ARGV[6], the cursor of the call before: Answer sets it
	switch {
	case b.Ordered:
		a.add("ow")
	case b.Full:
		a.add("dwa")
	case detail:
		a.add("dw")
	default:
		a.end()
	}
	switch {
	case len(b.Requests) == 0:
		a.add(" ") // a lease alone, and not a request for one permit
	case len(b.Requests) > 1 || b.Ordered || detail:
		a.text = engine.AppendRuns(a.text, b.Requests)
		a.end()
	default:
		a.end()
	}
	a.add(count) // ARGV[9], the cursor of the count of drift
	if b.Lease.Span > 0 {
		a.add(strconv.FormatInt(b.Lease.Permits, 10))
		a.add(strconv.FormatInt(b.Lease.Span.Milliseconds(), 10))
	}
	b.Text = a.text
	b.Args = a.list(b.Args)
}

// arguments collects the arguments of a call in one string, since each allocation costs a lone
// caller.
type arguments struct {
	text []byte
	ends [leaseSpanArg + 1]int
	n    int
}

// end ends an argument.
func (a *arguments) end() {
	a.ends[a.n] = len(a.text)
	a.n++
}

func (a *arguments) add(text string) {
	a.text = append(a.text, text...)
	a.end()
}

// list returns the arguments without the empty ones at the end.
func (a *arguments) list(list []string) []string {
	for a.n > 1 && a.ends[a.n-2] == len(a.text) {
		a.n--
	}
	list, all, start := list[:0], string(a.text), 0
	for _, end := range a.ends[:a.n] {
		list = append(list, all[start:end])
		start = end
	}
	return list
}

// appendMember appends the member of a grant of n permits: a length, as many random bytes, and n in
// 32 bits, little-endian. A grant with leased permits has the Client's lease ID in its first
// random bytes.
func (c *Client) appendMember(text []byte, n int64, leases bool) []byte {
	const random = 16
	text = append(text, random)
	first := c.leaseID
	if !leases {
		first = rand.Uint64()
	}
	text = binary.LittleEndian.AppendUint64(text, first)
	text = binary.LittleEndian.AppendUint64(text, rand.Uint64())
	return appendUint32(text, n)
}

// leaseIDBytes returns the Client's lease ID as members have it.
func (c *Client) leaseIDBytes() string {
	return string(binary.LittleEndian.AppendUint64(nil, c.leaseID))
}

func appendUint32(text []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint32(text, uint32(n))
}

// Refund returns the permits of a grant whose callers have left.
func (w *wire) Refund(b *engine.Batch) func(context.Context) {
	permits, granted := b.LostPermits, b.Granted
	random := b.Args[memberArg][:len(b.Args[memberArg])-4]
	return func(ctx context.Context) {
		_ = w.refund(ctx, permits, random, granted) // otherwise they return after the interval
	}
}

// refund returns permits of the grant whose member begins with random and was of granted permits.
// It names the grant, instead of releasing the oldest one: a late reply's grant may have expired,
// or may be lost with a master that failed.
func (w *wire) refund(ctx context.Context, permits int64, random string, granted int64) error {
	grant := string(appendUint32([]byte(random), granted))
	rest := ""
	if granted > permits {
		rest = string(appendUint32([]byte(random), granted-permits))
	}
	args := []string{w.client.nowText(), strconv.FormatInt(permits, 10), grant, rest}
	_, err := engine.Refund(ctx, w.client.engine, w.keys[:1],
		func(ctx context.Context) ([]rueidis.RedisMessage, error) { return w.pages(ctx, refundScript, args) })
	return err
}

// AboveLimit returns the error of a request above the rate.
func (w *wire) AboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, at most %d can be granted", ErrPermitsExceedRate, permits, w.name, limit)
}

// Explain adds the limiter to the error of a Redis call.
func (w *wire) Explain(ctx context.Context, err error) error {
	return w.explain(ctx, err)
}
