package limit

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// The first number of a full reply.
const (
	replyDone = iota
	replyAgain
	replyNotInitialized
	replyState
)

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

// nextCall returns the arguments of the next call, if the reply of a script requires one. They are
// those of the members at the time of the reply. A policy keeps its cursor while another one is
// counted.
func nextCall(c call, members []member, message rueidis.RedisMessage, args []string) (next []string, again bool) {
	r := redisx.ReadReply(message)
	if r.Number() != replyAgain {
		return nil, false
	}
	next = callArguments(args[:fixedArguments[c]:fixedArguments[c]], members, time.UnixMicro(r.Number()))
	next = append(next, args[argument(c, members, len(members)):]...)
	counted, cursor := int64(0), "" // the policy with a cursor, from 1 on
	if r.Len() > 0 {
		if counted, cursor = r.Number(), r.Text(); counted < 1 || counted > int64(len(members)) {
			return nil, false
		}
	}
	for i, m := range members {
		if m.redisson == nil {
			continue
		}
		at := argument(c, members, i) + cursorArg
		if next[at] = args[at]; int64(i) == counted-1 {
			next[at] = cursor
		}
	}
	return next, r.Ended()
}

// read reads a full reply.
func (w *wire) read(message rueidis.RedisMessage) (s *state, letters string, err error) {
	r := redisx.ReadReply(message)
	if code := r.Number(); code != replyDone {
		return nil, "", w.stopped(code, r, message)
	}
	s, letters = &state{most: w.plan.most, plan: w.plan}, r.Text()
	for _, m := range w.members {
		s.add(m, &r)
	}
	if r.Len() == 2 { // with a lease
		s.leased, s.lasts = r.Number(), time.Duration(r.Number())*time.Millisecond
	}
	if !r.Ended() {
		return nil, "", w.unexpected(message)
	}
	return s, letters, nil
}

// stopped returns the error for which a script stopped. The reader is behind the code.
func (w *wire) stopped(code int64, r redisx.Reply, message rueidis.RedisMessage) error {
	at := r.Number()
	if at < 1 || at > int64(len(w.members)) {
		return w.unexpected(message)
	}
	m := w.members[at-1]
	if code == replyNotInitialized && r.Ended() {
		return fmt.Errorf("%w: %q has no rate, open it with InitialRate or call SetRate",
			rratelimiter.ErrNotInitialized, m.name)
	}
	key, field := int64(1), ""
	if r.Len() == 3 { // of several keys
		key, field = r.Number(), r.Text()
	}
	value := r.Text()
	if code != replyState || !r.Ended() || key < 1 || key > int64(len(m.keys)) {
		return w.unexpected(message)
	}
	return &rratelimiter.StateError{Key: m.keys[key-1], Field: field, Value: value}
}
