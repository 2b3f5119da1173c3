package limit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// The first number of a reply that has several elements.
const (
	replyDone = iota
	replyAgain
	replyNotInitialized
	replyState
)

// isBrief reports whether a reply has only the texts of the policies: all requests were granted.
func isBrief(message rueidis.RedisMessage) bool {
	if message.IsString() {
		return true
	}
	texts, err := message.ToArray()
	return err == nil && len(texts) > 1 && texts[0].IsString() && texts[1].IsString()
}

// isTold reports whether a reply is the state of the only policy: its text and numbers.
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

// goOn returns the arguments of the next call, if the reply of a script requires one. They are
// those of the members at the time of the reply, and the cursors of limiters of Redisson's layout.
// Each limiter keeps its cursor while another one is counted.
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

// read reads a full reply.
func (w *wire) read(c call, members []member, message rueidis.RedisMessage) (o *state, letters string, err error) {
	reply, err := message.ToArray()
	if err != nil || len(reply) < 2 {
		return nil, "", w.unexpected(message)
	}
	kind, err := reply[0].AsInt64()
	if err != nil {
		return nil, "", w.unexpected(message)
	}
	if kind != replyDone {
		return nil, "", w.stopped(members, kind, reply[1:], message)
	}
	o = &state{most: w.most}
	if end := 3 + len(members); c == lease && len(reply) == end+2 {
		lasts, err := reply[end+1].AsInt64()
		if err != nil {
			return nil, "", w.unexpected(message)
		}
		if o.leased, err = reply[end].AsInt64(); err != nil {
			return nil, "", w.unexpected(message)
		}
		o.lasts, reply = time.Duration(lasts)*time.Millisecond, reply[:end]
	}
	if len(reply) != 3+len(members) {
		return nil, "", w.unexpected(message)
	}
	if o.now, err = reply[1].AsInt64(); err != nil {
		return nil, "", w.unexpected(message)
	}
	if letters, err = reply[2].ToString(); err != nil {
		return nil, "", w.unexpected(message)
	}
	for i, told := range reply[3:] {
		if !o.add(members[i].policy, told) {
			return nil, "", w.unexpected(message)
		}
	}
	return o, letters, nil
}

// stopped returns the error for which a script stopped.
func (w *wire) stopped(members []member, kind int64, reply []rueidis.RedisMessage, message rueidis.RedisMessage) error {
	number, err := reply[0].AsInt64()
	if err != nil || number < 1 || number > int64(len(members)) {
		return w.unexpected(message)
	}
	m := members[number-1]
	var texts []string
	for _, text := range reply[1:] {
		t, err := text.ToString()
		if err != nil {
			return w.unexpected(message)
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
	return w.unexpected(message)
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

func (w *wire) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("rratelimiter: limiter %q: the script replied %s, which this version does not know", w.name,
		message.String())
}
