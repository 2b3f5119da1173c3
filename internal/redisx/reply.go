package redisx

import "github.com/redis/rueidis"

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
