package rratelimiter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// protocol is a limiter as Redis has it: its keys, and the calls of its scripts. It is the engine's
// Protocol.
type protocol struct {
	client *Client
	name   string // as the Limiter was opened
	keys   limiterKeys
	hinted atomic.Pointer[hint]

	initial []redisx.Call // sets the initial rate; nil for none
}

// namedKeys returns the keys that a script gets: only those of an OVERALL limiter, unless the limiter
// is known to be PER_CLIENT. If the script needs the others, it replies so. The reason: while a slot
// migrates, a cluster refuses a script that names a key which does not exist.
func (p *protocol) namedKeys() []string {
	if p.hint().rate.Load().perClient {
		return p.keys[:]
	}
	return p.keys[:sharedKeys]
}

// timeArg is the index of the time in the arguments of a script, Unix milliseconds: ARGV[1]. It is "" for
// the server's clock.
const timeArg = 0

// timeText returns a time of engine.Now as an argument of a script. The program's clock may begin at the zero Time.
func (c *Client) timeText(now time.Time) string {
	if c.engine.ServerTime {
		return ""
	}
	return strconv.FormatInt(now.UnixMilli(), 10)
}

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
	seen, at := p.hint().rate.Load(), p.client.timeText(now)
	switch b.Script, b.Keys = acquireScript, p.keys[:sharedKeys]; {
	case seen.perClient: // see namedKeys
		b.Keys = p.keys[:]
	case b.Claim.ID != "":
		b.Script, b.Keys = waitScript, append(slices.Clip(b.Keys), p.keys.waiters())
	}
	ended, permits, flags, runs := "", "", "", ""
	if seen.text != "" && at != "" {
		ended = strconv.FormatInt(now.UnixMilli()-seen.interval, 10)
	}
	if total != 1 || prefetches {
		permits = strconv.FormatInt(total, 10)
	}
	switch {
	case b.Ordered && detail:
		flags = flagDetail + flagOrdered + flagWaits
	case b.Ordered:
		flags = flagOrdered + flagWaits
	case b.AllDetail:
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
	b.Args = append(b.Args[:0], at, p.client.member(total, prefetches), seen.text, ended, permits, cursor, flags, runs)
	if prefetches || b.Claim.ID != "" {
		b.Args = append(b.Args, strconv.FormatInt(b.Prefetch.Permits, 10),
			strconv.FormatInt(b.Prefetch.Span.Milliseconds(), 10))
	}
	if b.Claim.ID != "" {
		b.Args = append(append(b.Args, b.Claim.ID), p.hint().turns.arguments(b.Claim.Late, b.Claim.Rest,
			millis(seen.interval), p.client.waitJitter, now.UnixMilli())...)
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
	_, err := engine.ChangeKeepingPrefetches(ctx, p.client.engine, p.keys[:1],
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

// Answer parses the reply of the acquire script. If that is the last one, a count of drift may follow.
func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if again, err = p.read(b, message); err == nil && !again {
		p.recountIfDue(b.Replied, b.Args[timeArg])
	}
	return again, err
}

func (p *protocol) read(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() {
		left, err := message.AsInt64()
		if err == nil && left >= 0 {
			b.GrantAll(left)
		}
		return false, err
	}
	r := redisx.ReadReply(message)
	code, again, err := p.next(&b.Run, &r, p.initial)
	switch {
	case again || err != nil:
		return again, err
	case code == replyPrefetched && b.Prefetch.Span > 0:
		return p.prefetched(b, r)
	case code == replyPrefetched:
		return false, p.unexpected(&r)
	}
	return false, p.answer(b, code == replyDoneOwn, r)
}

// prefetched reads the reply to a call with a prefetch. Its last element is the reply of acquire.
func (p *protocol) prefetched(b *engine.Batch, r redisx.Reply) (again bool, err error) {
	total, _ := b.Wants()
	granted, lasts, limit, reset, free := r.Number(), millis(r.Number()), r.Number(), millis(r.Number()), r.Number()
	at, rest := r.Number(), r.Next()
	if !r.Ended() {
		return false, p.unexpected(&r)
	}
	f := &b.Prefetch
	f.Granted, f.Lasts, f.Limit, f.Free, f.Reset = granted, lasts, limit, free, lasts+reset
	f.Refund = p.receipt(grantOf(b.Args[memberArg]), granted+total, strconv.FormatInt(at, 10))
	return p.read(b, rest)
}

// answer sets the answers of a batch from a reply with a letter for each request.
func (p *protocol) answer(b *engine.Batch, perClient bool, reply redisx.Reply) error {
	free, rate, interval, reset := reply.Number(), reply.Number(), reply.Number(), reply.Number()
	now := time.UnixMilli(reply.Number())
	letters := reply.Text()
	counted, expires := reply.Number(), millis(reply.Number())
	o := &forecast{now: now.UnixMilli(), free: free, rate: rate, interval: millis(interval), reset: millis(reset),
		expires: expires}
	if pairs := reply.Len() / 2; pairs > 0 {
		o.returns = make([]permitsReturn, 0, pairs)
	}
	for reply.OK() && reply.Len() > 1 {
		o.add(reply.Number(), reply.Number())
	}
	if reply.OK() && reply.Len() == 1 { // of the script for callers that wait
		r := redisx.ReadReply(reply.Next())
		o.shares, b.Rivals.Others, o.held = true, r.Number() > 0, micros(r.Number())
		b.Rivals.Slow, o.rank, b.Rivals.Moved = micros(r.Number()), micros(r.Number()), micros(r.Number())
		if o.turn, o.ahead, o.all = millis(r.Number()), millis(r.Number()), r.Number(); !r.Ended() {
			reply.Fail()
		}
	}
	if !reply.Ended() || !b.AnswerBy(o, letters, p.AboveLimit) {
		return p.unexpected(&reply)
	}
	p.learn(b.Replied, rate, interval, perClient, counted == 1)
	p.takeTurns(b, o)
	if o.held > 0 {
		b.Denied = 0 // a denial of a waiter is none of other callers, who get what is held
	}
	return nil
}

// takeTurns sets the lag of waiters in the forecast of a batch.
func (p *protocol) takeTurns(b *engine.Batch, f *forecast) {
	if !b.Ordered {
		return
	}
	var granted int64
	for _, r := range b.Requests {
		granted += r.Granted
	}
	after, _ := f.after(max(b.Denied, 1))
	f.lag, b.Turn = p.hint().turns.lag(f, granted, after, p.client.waitJitter)
	b.Rivals.Others = b.Rivals.Others || f.beside
}

// code reads the code of a reply, and returns the error of a script that stopped.
func (p *protocol) code(r *redisx.Reply) (int64, error) {
	switch code := r.Number(); {
	case !r.OK():
	case code == replyNoRate:
		return 0, p.notInitialized()
	case code == replyCorrupt:
		key, field, value := r.Number(), r.Text(), r.Text()
		if r.Ended() && key >= 1 && key <= int64(len(p.keys)) {
			return 0, &StateError{Key: p.keys[key-1], Field: field, Value: value}
		}
	case code == replyAgain && r.Len() != 1, code < replyDone, code > replyNeedsKeys:
	default:
		return code, nil
	}
	return 0, p.unexpected(r)
}

// notInitialized returns the error of a call that needs a rate.
func (p *protocol) notInitialized() error {
	return fmt.Errorf("%w: %q has no rate, open it with InitialRate or call SetRate", ErrNotInitialized, p.name)
}

// micros returns n microseconds as a Duration. The script for callers that wait bounds them.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// millis returns n milliseconds as a Duration, at most the longest one.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// The format of a member of the permits set, as Redisson packs a grant. A byte has the length of the
// random part. That part follows, then the permits in four bytes, little-endian.
// internal/include/member.lua is the same in Lua.
const (
	randomLength = 16 // of the members that Go makes, and of Redisson's since 3.21
	permitsBytes = 4
)

// prefetchMark is the beginning of the random part of a grant with prefetched permits. The scripts distinguish
// a prefetch by it from a grant of a client whose clock is ahead.
const prefetchMark = "LEAS"

// newPrefetchID returns the first random bytes of the members of a Client's prefetches: the mark, and four
// random bytes.
func newPrefetchID() uint64 {
	return uint64(rand.Uint32())<<32 | uint64(binary.LittleEndian.Uint32([]byte(prefetchMark)))
}

// prefetchIDBytes returns the Client's prefetch ID as members have it.
func (c *Client) prefetchIDBytes() string {
	return string(binary.LittleEndian.AppendUint64(nil, c.prefetchID))
}

// member returns the member of a new grant of n permits. A grant with prefetched permits has the Client's
// prefetch ID in its first random bytes.
func (c *Client) member(n int64, prefetches bool) string {
	first := rand.Uint64()
	if prefetches {
		first = c.prefetchID
	}
	grant := append(make([]byte, 0, 1+randomLength), randomLength)
	grant = binary.LittleEndian.AppendUint64(grant, first)
	return memberOf(string(binary.LittleEndian.AppendUint64(grant, rand.Uint64())), n)
}

// memberOf returns the member of a grant with n permits.
func memberOf(grant string, n int64) string {
	return grant + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// grantOf returns what two members of one grant share, if their permits differ.
func grantOf(member string) string { return member[:len(member)-permitsBytes] }
