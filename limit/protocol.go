package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// protocol is a Limiter as the engine sees it: how the scripts of this package are asked.
type protocol Limiter

// Call is the script that takes permits.
func (p *protocol) Call(b *engine.Batch) (script *redisx.Script, keys []string) {
	if b.Lease.Span > 0 {
		return p.leaseScript, p.keys
	}
	return p.script, p.keys
}

// Arguments makes the arguments of the acquire script.
func (p *protocol) Arguments(b *engine.Batch, now time.Time) {
	total, detail := b.Wants()
	text := p.client.Engine.AppendMicros(b.Text[:0], now)
	nowEnd := len(text)
	text = strconv.AppendInt(text, total, 10)
	totalEnd := len(text)
	text = appendEpoch(text)
	epochEnd := len(text)
	if len(b.Requests) > 1 || b.Ordered || detail || b.Lease.Span > 0 {
		text = engine.AppendRuns(text, b.Requests)
	}
	runsEnd := len(text)
	switch {
	case b.Ordered:
		text = append(text, "do"...)
	case detail:
		text = append(text, 'd')
	}
	b.Text = text
	all := string(text)
	b.Args = append(b.Args[:0], all[:nowEnd], all[nowEnd:totalEnd], all[totalEnd:epochEnd])
	if b.Lease.Span > 0 {
		b.Args = append(b.Args, strconv.FormatInt(b.Lease.Permits, 10), strconv.FormatInt(b.Lease.Span.Milliseconds(), 10))
	}
	b.Args = arguments(b.Args, p.members, now)
	if epochEnd < len(all) {
		b.Args = append(b.Args, all[epochEnd:runsEnd], all[runsEnd:])
	}
}

// arguments appends those of members at a time.
func arguments(args []string, members []member, now time.Time) []string {
	for _, m := range members {
		args = m.policy.arguments(args, now)
	}
	return args
}

// allGranted stands for the letters of a batch of which every request was granted.
const allGranted = "*"

// Answer reads what the acquire script replied.
func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() { // -1: none was granted
		return false, nil
	}
	if isBrief(message) {
		b.GrantAll(0, engine.Answer{})
		return false, nil
	}
	if len(p.members) == 1 && isTold(message) {
		// All was granted, and the time of the reply is that of the call.
		now, err := strconv.ParseInt(b.Args[0], 10, 64)
		o := &state{now: now, most: p.most}
		if err != nil || !o.add(p.members[0].policy, message) {
			return false, (*Limiter)(p).unexpected(message)
		}
		p.answer(b, o, allGranted)
		return false, nil
	}
	c := acquire
	if b.Lease.Span > 0 {
		c = lease
	}
	if next, again := goOn(c, p.members, message, b.Args); again {
		b.Args = next
		return true, nil
	}
	o, letters, err := (*Limiter)(p).read(c, p.members, message)
	if err != nil {
		return false, err
	}
	if o.leased > 0 {
		p.lease(b, o)
	}
	if letters != allGranted && len(letters) != len(b.Requests) {
		return false, (*Limiter)(p).unexpected(message)
	}
	p.answer(b, o, letters)
	return false, nil
}

// answer sets the answers of a batch from the state that its call left, and a letter for each
// request.
func (p *protocol) answer(b *engine.Batch, o *state, letters string) {
	b.Outlook = o
	later := o.leased // permits granted behind the request, or to no caller yet
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		letter := byte('g')
		if letters != allGranted {
			letter = letters[i]
		}
		if r.Each && letter != 'x' {
			r.Extra = o.each(r.Permits, later, letter == 'g')
		}
		switch letter {
		case 'g':
			r.Answer = o.granted(later)
			later += r.Permits
		case 'x':
			r.Err = p.AboveLimit(r.Permits, o.most)
		default:
			r.Answer, _ = o.denied(r.Permits, later)
			if b.Denied == 0 || r.Permits < b.Denied {
				b.Denied = r.Permits
			}
		}
	}
}

// The first number of a reply of more than one, as the scripts say.
const (
	replyDone = iota
	replyAgain
	replyNotInitialized
	replyState
)

// isBrief reports whether a reply has the texts of the policies and nothing else, so that all was
// granted.
func isBrief(message rueidis.RedisMessage) bool {
	if message.IsString() {
		return true
	}
	texts, err := message.ToArray()
	return err == nil && len(texts) > 1 && texts[0].IsString() && texts[1].IsString()
}

// isTold reports whether a reply is what the script tells of the only policy: its text, and numbers.
func isTold(message rueidis.RedisMessage) bool {
	told, err := message.ToArray()
	return err == nil && len(told) > 1 && told[0].IsString() && told[1].IsInt64()
}

// briefTexts returns the texts of a brief reply.
func briefTexts(message rueidis.RedisMessage) []string {
	if text, err := message.ToString(); err == nil {
		return []string{text}
	}
	texts, _ := message.AsStrSlice()
	return texts
}

// goOn returns the arguments with which a script is called again, if its reply wants that: those of
// the members at the time that it replied, and the cursors of limiters of Redisson's layout. Each
// keeps its own while another one is counted.
func goOn(c call, members []member, message rueidis.RedisMessage, args []string) (next []string, again bool) {
	reply, err := message.ToArray()
	if err != nil || len(reply) != 2 && len(reply) != 4 {
		return nil, false
	}
	var numbers [3]int64
	for i := range min(3, len(reply)) {
		if numbers[i], err = reply[i].AsInt64(); err != nil {
			return nil, false
		}
	}
	if numbers[0] != replyAgain {
		return nil, false
	}
	next = arguments(args[:before[c]:before[c]], members, time.UnixMicro(numbers[1]))
	next = append(next, args[argument(c, members, len(members)):]...)
	for i, m := range members {
		if _, ok := m.policy.(redisson); ok {
			at := argument(c, members, i) + cursorArg
			next[at] = args[at]
		}
	}
	if len(reply) == 4 {
		cursor, err := reply[3].ToString()
		if err != nil || numbers[2] < 1 || numbers[2] > int64(len(members)) {
			return nil, false
		}
		next[argument(c, members, int(numbers[2])-1)+cursorArg] = cursor
	}
	return next, true
}

// read reads a reply that tells all.
func (l *Limiter) read(c call, members []member, message rueidis.RedisMessage) (o *state, letters string, err error) {
	reply, err := message.ToArray()
	if err != nil || len(reply) < 2 {
		return nil, "", l.unexpected(message)
	}
	kind, err := reply[0].AsInt64()
	if err != nil {
		return nil, "", l.unexpected(message)
	}
	if kind != replyDone {
		return nil, "", l.stopped(members, kind, reply[1:], message)
	}
	o = &state{most: l.most}
	if end := 3 + len(members); c == lease && len(reply) == end+2 {
		lasts, err := reply[end+1].AsInt64()
		if err != nil {
			return nil, "", l.unexpected(message)
		}
		if o.leased, err = reply[end].AsInt64(); err != nil {
			return nil, "", l.unexpected(message)
		}
		o.lasts, reply = time.Duration(lasts)*time.Millisecond, reply[:end]
	}
	if len(reply) != 3+len(members) {
		return nil, "", l.unexpected(message)
	}
	if o.now, err = reply[1].AsInt64(); err != nil {
		return nil, "", l.unexpected(message)
	}
	if letters, err = reply[2].ToString(); err != nil {
		return nil, "", l.unexpected(message)
	}
	for i, told := range reply[3:] {
		if !o.add(members[i].policy, told) {
			return nil, "", l.unexpected(message)
		}
	}
	return o, letters, nil
}

// stopped reads why a script stopped before its end.
func (l *Limiter) stopped(members []member, kind int64, reply []rueidis.RedisMessage, message rueidis.RedisMessage) error {
	number, err := reply[0].AsInt64()
	if err != nil || number < 1 || number > int64(len(members)) {
		return l.unexpected(message)
	}
	m := members[number-1]
	var texts []string
	for _, text := range reply[1:] {
		t, err := text.ToString()
		if err != nil {
			return l.unexpected(message)
		}
		texts = append(texts, t)
	}
	switch {
	case kind == replyNotInitialized && len(texts) == 0:
		return fmt.Errorf("%w: %q has no rate, set one with TrySetRate or SetRate", rratelimiter.ErrNotInitialized, m.name)
	case kind == replyState && len(texts) == 1:
		return &rratelimiter.StateError{Key: m.keys[0], Value: texts[0]}
	case kind == replyState && len(texts) == 3:
		if key, err := strconv.Atoi(texts[0]); err == nil && key >= 1 && key <= len(m.keys) {
			return &rratelimiter.StateError{Key: m.keys[key-1], Field: texts[1], Value: texts[2]}
		}
	}
	return l.unexpected(message)
}

// argument is the place of a member's first argument in those of a script, or of the first one
// behind all members.
func argument(c call, members []member, member int) int {
	at := before[c]
	for _, m := range members[:member] {
		at += len(m.policy.arguments(nil, time.Time{}))
	}
	return at
}

func (l *Limiter) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("rratelimiter: limiter %q: the script replied %s, which this version does not know", l.Name(), message.String())
}

// GiveBack returns a refund of what callers that have left were granted. It gives back what that
// grant still takes.
func (p *protocol) GiveBack(b *engine.Batch) func(context.Context) {
	l := (*Limiter)(p)
	permits, granted := b.LostPermits, b.Granted
	marks, args := briefTexts(b.Reply), slices.Clone(b.Args)
	if o, ok := b.Outlook.(*state); ok {
		marks = o.marks
	}
	if len(marks) != len(l.members) {
		return nil
	}
	return func(ctx context.Context) {
		_ = l.release(ctx, permits, marks, func(ctx context.Context, at int, p redisson) error {
			return p.limiter.GiveBack(ctx, permits, args[argument(acquire, l.members, at)+randomArg], granted)
		})
	}
}

// AboveLimit says that so many permits can never be granted.
func (p *protocol) AboveLimit(permits, limit int64) error {
	return fmt.Errorf("%w: %d requested of %q, which can never grant more than %d", rratelimiter.ErrPermitsExceedRate, permits, p.calls.Name, limit)
}

// Explain makes the error of a Redis call say which limiter it is about, and where it says that a
// key is of another type, which key that is.
func (p *protocol) Explain(ctx context.Context, err error) error {
	var redisErr *rueidis.RedisError
	if errors.As(err, &redisErr) && strings.Contains(redisErr.Error(), "WRONGTYPE") {
		redis := p.client.Engine.Redis()
		for _, m := range p.members {
			for i, want := range m.policy.keeps() {
				// Not a read of rueidis' own builder, which would be sent again for as long as an
				// outage lasts.
				got, err := redis.Do(ctx, redis.B().Arbitrary("TYPE").Keys(m.keys[i]).Build()).ToString()
				if err == nil && got != want && got != "none" {
					return &rratelimiter.StateError{Key: m.keys[i], Value: got}
				}
			}
		}
	}
	return fmt.Errorf("rratelimiter: limiter %q: %w", p.calls.Name, err)
}
