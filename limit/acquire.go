package limit

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// The exported methods of a protocol are those of engine.Protocol.

// keyOfWaiters returns the key of the Clients whose callers wait for the same policies. Those of a policy with other
// permits are no rivals: what is free for one may be forbidden to another, and would be held for it in vain.
func (p *protocol) keyOfWaiters() string {
	if key := p.waitersKey.Load(); key != nil {
		return *key
	}
	var texts []string
	for _, m := range p.members {
		texts = append(texts, m.keys[0], m.fingerprint) // of Redisson's layout, other keys are of one Client
	}
	key := redisx.Beside(redisx.Waiters, texts...)
	p.waitersKey.Store(&key)
	return key
}

// lookEvery is how many denials there are for one call that looks at the expiry of its key. A brief reply to a denial
// does not have it, and another program may have left the key without one.
const lookEvery = 64

// Prepare sets the call of the acquire script.
func (p *protocol) Prepare(b *engine.Batch, now time.Time) {
	if b.Script, b.Keys = p.plan.acquires, p.keys; b.Claim.ID != "" {
		b.Script, b.Keys = p.plan.waits, append(slices.Clip(p.keys), p.keyOfWaiters())
	}
	total, detail := b.Wants()
	denials := &p.plan.client.Engine.BriefDenials
	if n := denials.Load(); p.plan.expires && n >= lookEvery-1 && denials.CompareAndSwap(n, 0) {
		detail = true
	}
	b.Args = append(b.Args[:0], strconv.FormatInt(total, 10))
	if timed := p.plan.timed || b.Claim.ID != ""; timed || p.plan.epochs {
		b.Args = p.plan.fixed(timed, p.plan.epochs, b.Args, now)
	}
	b.Args = callArguments(b.Args, p.members, now)
	flags := ""
	switch {
	case b.Ordered:
		flags = "do"
	case detail:
		flags = "d"
	}
	switch {
	case b.Ordered || b.Prefetch.Span > 0 || len(b.Requests) > 1 || b.Requests[0].UpTo > 0:
		b.Args = append(b.Args, flags, engine.Runs(b.Requests))
	case detail:
		b.Args = append(b.Args, flags)
	}
	if b.Ordered {
		b.Args = append(b.Args, strconv.FormatInt(b.Backdate.Microseconds(), 10))
	} else if b.Prefetch.Span > 0 {
		b.Args = append(b.Args, "")
	}
	if b.Prefetch.Span > 0 {
		b.Args = append(b.Args, strconv.FormatInt(b.Prefetch.Permits, 10),
			strconv.FormatInt(b.Prefetch.Span.Milliseconds(), 10))
	} else if b.Claim.ID != "" {
		b.Args = append(b.Args, "", "")
	}
	if b.Claim.ID != "" {
		b.Args = append(b.Args, b.Claim.ID, strconv.FormatInt(b.Claim.Late.Milliseconds(), 10),
			strconv.FormatInt(b.Claim.Rest, 10), strconv.FormatInt(p.plan.leadPermits, 10), p.plan.permitMillis)
	}
}

// callOf returns the call of a batch.
func callOf(b *engine.Batch) call {
	if b.Claim.ID != "" {
		return waitCall
	}
	return acquireCall
}

// fixed appends the time and the epoch of a call, if its script reads them.
func (p *plan) fixed(timed, epochs bool, args []string, now time.Time) []string {
	at := make([]byte, 0, 32)
	if timed && !p.client.Engine.ServerTime { // the program's clock may begin at the zero Time
		at = strconv.AppendInt(at, now.UnixMicro(), 10)
	}
	switch {
	case !timed && !epochs:
		return args
	case !epochs:
		return append(args, string(at))
	}
	both := string(appendEpoch(at)) // one text costs less than two
	if timed {
		args = append(args, both[:len(at)])
	}
	return append(args, both[len(at):])
}

// callArguments appends the arguments of members at a time.
func callArguments(args []string, members []member, now time.Time) []string {
	for i := range members {
		if m := &members[i]; m.arguments != nil {
			args = append(args, m.arguments...)
		} else {
			args = m.policy.arguments(args, now)
		}
	}
	return args
}

// fullFor is how long the key of a full bucket stays, so that callers that wait lose nothing by the time
// of their call: see backdate in scripts/acquire.lua.
const fullFor = engine.LongestCall

// Answer reads the reply of the acquire script.
func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() { // -1: none was granted
		if p.plan.expires {
			p.plan.client.Engine.BriefDenials.Add(1)
		}
		return false, nil
	}
	if isBrief(message, len(p.members)) {
		b.GrantAll(0)
		if p.plan.holds != nil {
			p.reportExpired(briefTexts(message))
		}
		return false, nil
	}
	if p.plan.flat && !b.Ordered {
		if s, letters := p.flat(message); s != nil {
			b.AnswerBy(s, letters, p.AboveLimit)
			return false, nil
		}
	}
	if reply := redisx.ReadReply(message); reply.Number() != replyDone && p.again(callOf(b), &b.Run, message) {
		return true, nil
	}
	s, letters, err := p.read(message, b.Claim.ID != "")
	if err != nil {
		return false, err
	}
	if p.plan.holds != nil {
		p.reportExpired(s.receipts) // the text of an InFlight is no receipt
	}
	b.Rivals = s.shared
	if s.prefetched > 0 {
		p.prefetch(b, s)
	}
	// A denial of a waiter is none of other callers if they can get what it cannot.
	waiters := b.Ordered && s.forWaiters(b.Claim.ID != "") || s.held > 0
	if !b.AnswerBy(s, letters, p.AboveLimit) {
		return false, p.unexpected(message)
	}
	if waiters || p.plan.countsDenials {
		b.Denied = 0
	}
	return false, nil
}

// isBrief reports whether a reply has only the texts of the policies: all requests were granted.
func isBrief(message rueidis.RedisMessage, policies int) bool {
	if policies == 1 {
		return message.IsString()
	}
	texts, err := message.ToArray()
	other := func(text rueidis.RedisMessage) bool { return !text.IsString() }
	return err == nil && len(texts) == policies && !slices.ContainsFunc(texts, other)
}

// briefTexts returns the texts of a brief reply.
func briefTexts(message rueidis.RedisMessage) []string {
	if text, err := message.ToString(); err == nil {
		return []string{text}
	}
	texts, _ := message.AsStrSlice() // nil if the reply is not brief
	return texts
}

// flat reads the reply to a lone Take of a window: {taken, left}, or {-1, taken, left} if it is denied. It
// returns nil for another reply.
func (p *protocol) flat(message rueidis.RedisMessage) (s *state, letters string) {
	all, err := message.ToArray()
	notNumber := func(m rueidis.RedisMessage) bool { return !m.IsInt64() } // as the time of another reply
	if err != nil || slices.ContainsFunc(all, notNumber) {
		return nil, ""
	}
	r := redisx.ReadReply(message)
	if letters = "*"; len(all) == 3 && r.Number() == -1 {
		letters = "n"
	}
	s = &state{most: p.plan.most, plan: p.plan, receipts: []string{""}}
	s.policies = []forecast{p.members[0].policy.forecast(&r)}
	if !r.Ended() {
		return nil, ""
	}
	return s, letters
}

// prefetch describes a prefetch that a call has brought.
func (p *protocol) prefetch(b *engine.Batch, s *state) {
	answer := s.Granted(0)
	b.Prefetch.Granted, b.Prefetch.Lasts, b.Prefetch.Parts = s.prefetched, s.lasts, s.GrantedParts(0)
	b.Prefetch.Limit, b.Prefetch.Free, b.Prefetch.Reset = answer.Limit, answer.Remaining, answer.ResetAfter
	grant := p.grantOf(b, s)
	b.Prefetch.Refund = func(ctx context.Context, permits int64) error { return p.refund(ctx, permits, grant) }
}

// grant names what a call took, for a refund.
type grant struct {
	receipts []string             // the text that each policy left
	age      func() time.Duration // since the reply
}

// grantOf returns the grant of the call of a batch. The state is that of its reply, or nil if that was brief.
func (p *protocol) grantOf(b *engine.Batch, s *state) grant {
	replied := b.Replied
	all := grant{age: func() time.Duration { return engine.Elapsed(replied, time.Now()) }}
	if s != nil {
		all.receipts = slices.Clone(s.receipts)
	} else {
		all.receipts = briefTexts(b.Reply)
	}
	for i := range all.receipts {
		if i < len(p.members) && p.members[i].described.Refill == policy.Together {
			all.receipts[i] = windowReceipt(b, s, i)
		}
	}
	return all
}

// windowReceipt returns the receipt of a window, as fixedwindow.lua has it. A window has no name in Redis, so the
// receipt identifies it by its end or its age:
//   - its end, after a full reply.
//   - "+" and 0 after a brief reply to a call that began it: it is as old as the reply.
//   - "+" and a time after another brief reply. It has to be older than the call by the time of another call. The
//     refund is on its way that long, and a younger window may be the next one.
func windowReceipt(b *engine.Batch, s *state, index int) string {
	if s != nil {
		if f, ok := s.policies[index].(windowForecast); ok {
			return strconv.FormatInt(f.end.Milliseconds(), 10)
		}
	} else if briefTexts(b.Reply)[index] != "new" {
		return "+" + strconv.FormatInt((2*b.Replied.Sub(b.Sent)+time.Millisecond-1).Milliseconds(), 10)
	}
	return "+0"
}

// Receipt returns the refund of the grant of a call. The limiters of Redisson's layout refund theirs one after
// another, and then all policies with one call. If one fails, the others still refund theirs, unless ctx has ended.
func (p *protocol) Receipt(b *engine.Batch) receipt.Refund {
	s, _ := b.Forecast.(*state)
	granted, all := b.Granted, p.grantOf(b, s)
	switch {
	case len(all.receipts) != len(p.members):
		return nil
	case !p.plan.redisson:
		return func(ctx context.Context, permits int64) error { return p.refund(ctx, permits, all) }
	}
	c, args := callOf(b), slices.Clone(b.Args) // the next batch uses them
	return func(ctx context.Context, permits int64) (err error) {
		for i, m := range p.members {
			if m.redisson != nil {
				random := args[argument(c, p.members, i)+randomArg]
				err = cmp.Or(err, m.redisson.Refund(ctx, permits, random, granted, all.receipts[i]))
			}
		}
		return cmp.Or(err, p.refund(ctx, permits, all))
	}
}

// Hold returns the places of a request.
func (p *protocol) Hold(b *engine.Batch, index int, permits int64) *hold.Hold {
	n := len(p.plan.holds)
	if n == 0 || len(b.Args) <= p.plan.holds[n-1].id { // a callback has panicked
		return nil
	}
	h := p.plan.client.Engine.Keeper.New()
	s, _ := b.Forecast.(*state)
	for _, at := range p.plan.holds {
		m := p.members[at.index]
		own, _ := m.policy.(InFlight)
		terms := hold.Terms{Limiter: m.name, Key: m.keys[0], Lease: own.Lease, Renew: own.Renew, Calls: &places{p.plan, m}}
		h.Add(terms, placeOf(b.Args[at.id], index, permits, own.Lease), b.Sent)
		h.Full = h.Full || s != nil && s.policies[at.index].Free() <= 0
	}
	return h
}

// refund returns permits of a grant: of a caller that left or settles, or a prefetch. The grant must still take
// them. It leaves prefetches as they are.
func (p *protocol) refund(ctx context.Context, permits int64, of grant) error {
	if !has(p.members, "release") { // as of a Pause, or of Redisson's layout
		return nil
	}
	_, err := engine.ChangeKeepingPrefetches(ctx, p.plan.client.Engine, p.dependsOn, p.returning(permits, of))
	if errors.Is(err, redisx.ErrRanBefore) {
		return nil
	}
	return err
}

// returning returns the call that returns permits. Those of the zero grant are any.
func (p *protocol) returning(permits int64, of grant) func(context.Context) (rueidis.RedisMessage, error) {
	own := func() []string {
		age := ""
		if of.age != nil {
			age = strconv.FormatInt(max(0, of.age()).Milliseconds(), 10)
		}
		return []string{strconv.FormatInt(permits, 10), age}
	}
	return func(ctx context.Context) (rueidis.RedisMessage, error) {
		return p.run(ctx, releaseCall, own, of.receipts...)
	}
}

const (
	epochBase  = 36
	leastEpoch = 36 * 36 * 36 * 36 * 36 // of six digits, as all are
)

// appendEpoch appends a random word. The call that begins a state sets it, and a refund names it.
// So no refund changes a state that began after its grant, as one does after a Reset. Two states of
// a name share an epoch in one of two billion cases.
func appendEpoch(to []byte) []byte {
	return strconv.AppendUint(to, leastEpoch+rand.Uint64N((epochBase-1)*leastEpoch), epochBase)
}
