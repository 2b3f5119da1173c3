package limit

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// The first number of a full reply.
const (
	replyDone = iota
	replyAgain
	replyNotInitialized
	replyState
)

// reader reads the elements of a reply in their order. An absent element, or one of another type,
// is its zero value and sets bad.
type reader struct {
	rest []rueidis.RedisMessage
	bad  bool
}

func readerOf(message rueidis.RedisMessage) reader {
	elements, err := message.ToArray()
	return reader{elements, err != nil}
}

func (r *reader) next() (element rueidis.RedisMessage) {
	if len(r.rest) == 0 {
		r.bad = true
		return element
	}
	element, r.rest = r.rest[0], r.rest[1:]
	return element
}

func (r *reader) number() int64 {
	element := r.next()
	n, err := element.AsInt64()
	r.bad = r.bad || err != nil
	return n
}

func (r *reader) text() string {
	element := r.next()
	text, err := element.ToString()
	r.bad = r.bad || err != nil
	return text
}

// ended reports whether the reply had all elements that were read, and no more.
func (r *reader) ended() bool { return !r.bad && len(r.rest) == 0 }

// isBrief reports whether a reply has only the texts of the policies: all requests were granted.
func isBrief(message rueidis.RedisMessage) bool {
	texts, err := message.ToArray()
	return err == nil && len(texts) > 0 && texts[0].IsString()
}

// nextCall returns the arguments of the next call, if the reply of a script requires one. They are
// those of the members at the time of the reply, and the cursors of limiters of Redisson's layout.
// Each limiter keeps its cursor while another one is counted.
func nextCall(c call, members []member, message rueidis.RedisMessage, args []string) (next []string, again bool) {
	r := readerOf(message)
	if r.number() != replyAgain {
		return nil, false
	}
	next = callArguments(args[:fixedArguments[c]:fixedArguments[c]], members, time.UnixMicro(r.number()))
	next = append(next, args[argument(c, members, len(members)):]...)
	for i, m := range members {
		if _, ok := m.policy.(redisson); ok {
			at := argument(c, members, i) + cursorArg
			next[at] = args[at]
		}
	}
	if len(r.rest) > 0 {
		at, cursor := r.number(), r.text()
		if at < 1 || at > int64(len(members)) {
			return nil, false
		}
		next[argument(c, members, int(at)-1)+cursorArg] = cursor
	}
	return next, r.ended()
}

// read reads a full reply.
func (w *wire) read(c call, message rueidis.RedisMessage) (s *state, letters string, err error) {
	r := readerOf(message)
	if kind := r.number(); kind != replyDone {
		return nil, "", w.stopped(kind, r, message)
	}
	s, letters = &state{most: w.most}, r.text()
	for _, m := range w.members {
		s.add(m.policy, &r)
	}
	if c == lease {
		s.leased, s.lasts = r.number(), time.Duration(r.number())*time.Millisecond
	}
	if !r.ended() {
		return nil, "", w.unexpected(message)
	}
	return s, letters, nil
}

// stopped returns the error for which a script stopped. The reader is behind the kind.
func (w *wire) stopped(kind int64, r reader, message rueidis.RedisMessage) error {
	at := r.number()
	if at < 1 || at > int64(len(w.members)) {
		return w.unexpected(message)
	}
	m := w.members[at-1]
	if kind == replyNotInitialized && r.ended() {
		return fmt.Errorf("%w: %q has no rate, set one with TrySetRate or SetRate", rratelimiter.ErrNotInitialized, m.name)
	}
	key, field := int64(1), ""
	if len(r.rest) == 3 { // of several keys
		key, field = r.number(), r.text()
	}
	value := r.text()
	if kind != replyState || !r.ended() || key < 1 || key > int64(len(m.keys)) {
		return w.unexpected(message)
	}
	return &rratelimiter.StateError{Key: m.keys[key-1], Field: field, Value: value}
}

// argument is the place of a member's first argument in those of a script, or of the first one
// behind all members.
func argument(c call, members []member, index int) int {
	at := fixedArguments[c]
	for _, m := range members[:index] {
		at += len(m.policy.arguments(nil, time.Time{}))
	}
	return at
}
