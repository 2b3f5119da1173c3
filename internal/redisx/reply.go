package redisx

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// unable are the codes of the error replies of a server that cannot serve. It starts, runs a script for too
// long, is a replica, cannot write, or does not have the slot.
var unable = []string{"LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "OOM", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN"}

// codeOf returns the code that the text of an error reply begins with.
func codeOf(reply string) string {
	// rueidis removes "ERR ". Redis 6 names the error of a command in a script at the end.
	if _, inner, ok := strings.Cut(reply, ": -"); ok && strings.HasPrefix(reply, "Error running script") {
		reply = inner
	}
	code, _, _ := strings.Cut(reply, " ")
	return code
}

// isUnable reports whether the text of an error reply says that its server cannot serve.
func isUnable(reply string) bool {
	return slices.Contains(unable, codeOf(reply)) || strings.HasPrefix(reply, "max number of clients reached")
}

// isFromReplica reports whether an error is a reply that only a replica sends.
func isFromReplica(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && slices.Contains([]string{"READONLY", "MASTERDOWN"}, codeOf(reply.Error()))
}

// Answers reports whether an error is the reply of a server that can serve. It refused this call alone.
func Answers(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && !reply.IsNil() && !isUnable(reply.Error())
}

// Reply reads the elements of an array in their order. An element that is absent or of another type
// is its zero value, and makes the reply bad.
type Reply struct {
	message rueidis.RedisMessage
	rest    []rueidis.RedisMessage
	bad     bool
}

// ReadReply returns a Reply that reads a message from its first element.
func ReadReply(message rueidis.RedisMessage) Reply {
	elements, err := message.ToArray()
	return Reply{message, elements, err != nil}
}

// Next reads an element of any type.
func (r *Reply) Next() (element rueidis.RedisMessage) {
	if len(r.rest) == 0 {
		r.bad = true
		return element
	}
	element, r.rest = r.rest[0], r.rest[1:]
	return element
}

// Number reads a number.
func (r *Reply) Number() int64 {
	element := r.Next()
	n, err := element.AsInt64()
	r.bad = r.bad || err != nil
	return n
}

// Text reads a text.
func (r *Reply) Text() string {
	element := r.Next()
	text, err := element.ToString()
	r.bad = r.bad || err != nil
	return text
}

// Len returns the number of elements that are not read.
func (r *Reply) Len() int { return len(r.rest) }

// Fail makes the reply bad.
func (r *Reply) Fail() { r.bad = true }

// OK reports whether the reply is not bad.
func (r *Reply) OK() bool { return !r.bad }

// Ended reports whether the reply had all elements that were read, and no more.
func (r *Reply) Ended() bool { return !r.bad && len(r.rest) == 0 }

// String returns the whole reply.
func (r *Reply) String() string { return r.message.String() }
