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
)

// protocol is a Limiter as the engine sees it: how the scripts of this package are asked.
type protocol Limiter

// Call is the script that takes permits.
func (p *protocol) Call() (script *engine.Script, keys []string) {
	return scriptFor(acquire, p.policies), p.keys
}

// Arguments makes the arguments of the acquire script.
func (p *protocol) Arguments(b *engine.Batch, now time.Time) {
	var total int64
	// Only a reply that tells all tells the server's time, by which what is lost is given back.
	detail := b.Full || p.client.Engine.ServerTime()
	for _, r := range b.Requests {
		total += r.Permits
		detail = detail || r.Detail
	}
	text := p.client.Engine.AppendMicros(b.Text[:0], now)
	nowEnd := len(text)
	text = strconv.AppendInt(text, total, 10)
	totalEnd := len(text)
	if len(b.Requests) > 1 || b.Ordered || detail {
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
	b.Args = append(b.Args[:0], all[:nowEnd], all[nowEnd:totalEnd], all[totalEnd:runsEnd], all[runsEnd:])
	for _, policy := range p.policies {
		b.Args = policy.arguments(b.Args, now)
	}
}

// allGranted stands for the letters of a batch of which every request was granted.
const allGranted = "*"

// Answer reads what the acquire script replied.
func (p *protocol) Answer(b *engine.Batch, message rueidis.RedisMessage) (again bool, err error) {
	if message.IsInt64() {
		left, err := message.AsInt64()
		if err == nil && left >= 0 {
			b.GrantAll(left, engine.Answer{})
		}
		return false, err
	}
	o, letters, err := (*Limiter)(p).read(message)
	if err != nil {
		return false, err
	}
	if letters != allGranted && len(letters) != len(b.Requests) {
		return false, (*Limiter)(p).unexpected(message)
	}
	b.Outlook = o
	var later int64 // permits granted behind the request
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		letter := byte('g')
		if letters != allGranted {
			letter = letters[i]
		}
		if r.Each && letter != 'x' {
			r.Parts = o.each(r.Permits, later, letter == 'g')
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
	return false, nil
}

// The first number of a reply of more than one, as script.lua says.
const (
	replyDone  = 0
	replyState = 3
)

// read reads a reply that tells all.
func (l *Limiter) read(message rueidis.RedisMessage) (o *state, letters string, err error) {
	reply, err := message.ToArray()
	if err != nil || len(reply) < 3 {
		return nil, "", l.unexpected(message)
	}
	switch kind, err := reply[0].AsInt64(); {
	case err == nil && kind == replyState:
		return nil, "", l.wrongState(message, reply)
	case err != nil || kind != replyDone || len(reply) != 3+len(l.policies):
		return nil, "", l.unexpected(message)
	}
	o = &state{most: l.most()}
	if o.now, err = reply[1].AsInt64(); err != nil {
		return nil, "", l.unexpected(message)
	}
	if letters, err = reply[2].ToString(); err != nil {
		return nil, "", l.unexpected(message)
	}
	for i, told := range reply[3:] {
		texts, err := told.ToArray()
		if err != nil || len(texts) == 0 {
			return nil, "", l.unexpected(message)
		}
		text, err := texts[0].ToString()
		if err != nil {
			return nil, "", l.unexpected(message)
		}
		numbers := make([]int64, len(texts)-1)
		for j := range numbers {
			if numbers[j], err = texts[j+1].AsInt64(); err != nil {
				return nil, "", l.unexpected(message)
			}
		}
		policy, ok := l.policies[i].outlook(numbers)
		if !ok {
			return nil, "", l.unexpected(message)
		}
		o.policies, o.texts = append(o.policies, policy), append(o.texts, text)
	}
	return o, letters, nil
}

// wrongState is the error of a reply that says that a key holds what is not a limiter's.
func (l *Limiter) wrongState(message rueidis.RedisMessage, reply []rueidis.RedisMessage) error {
	policy, err := reply[1].AsInt64()
	text, textErr := reply[2].ToString()
	if err != nil || textErr != nil || policy < 1 || policy > int64(len(l.keys)) {
		return l.unexpected(message)
	}
	return &rratelimiter.StateError{Key: l.keys[policy-1], Value: text}
}

func (l *Limiter) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("rratelimiter: limiter %q: the script replied %s, which this version does not know", l.Name(), message.String())
}

// GiveBack gives back what callers that had gone were granted: what was taken at that time, where it still counts.
func (p *protocol) GiveBack(b *engine.Batch) func(context.Context) {
	var permits int64
	for _, r := range b.Lost {
		permits += r.Permits
	}
	dated := b.Args[0]
	if o, ok := b.Outlook.(*state); ok {
		dated = strconv.FormatInt(o.now, 10)
	}
	return func(ctx context.Context) {
		_ = (*Limiter)(p).release(ctx, permits, dated)
	}
}

// AboveLimit says that so many permits can never be granted.
func (p *protocol) AboveLimit(permits, _ int64) error {
	strictest := slices.MinFunc(p.policies, func(a, b Policy) int { return int(min(1, max(-1, a.most()-b.most()))) })
	return fmt.Errorf("%w: %d requested of %q, and %+v can never grant more than %d", rratelimiter.ErrPermitsExceedRate, permits,
		p.calls.Name, strictest, strictest.most())
}

// Explain makes the error of a Redis call say which limiter it is about, and where it says that a key is of another type,
// which key that is.
func (p *protocol) Explain(ctx context.Context, err error) error {
	var redisErr *rueidis.RedisError
	if errors.As(err, &redisErr) && strings.Contains(redisErr.Error(), "WRONGTYPE") {
		redis := p.client.Engine.Redis()
		for i, key := range p.keys {
			// Not a read of rueidis' own builder, which would be sent again for as long as an outage lasts.
			got, err := redis.Do(ctx, redis.B().Arbitrary("TYPE").Keys(key).Build()).ToString()
			if want := p.policies[i].keeps().redisType; err == nil && got != want && got != "none" {
				return &rratelimiter.StateError{Key: key, Value: got}
			}
		}
	}
	return fmt.Errorf("rratelimiter: limiter %q: %w", p.calls.Name, err)
}

// Looks reads all keys.
func (p *protocol) Looks(ttl time.Duration) []rueidis.CacheableTTL {
	looks := make([]rueidis.CacheableTTL, len(p.keys))
	for i, key := range p.keys {
		looks[i] = rueidis.CT(p.policies[i].keeps().look(p.client.Engine.Redis().B(), key), ttl)
	}
	return looks
}
