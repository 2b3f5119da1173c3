package inspect

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// valueRead is the number of bytes to read of a value: more than a number has, but bounded.
const valueRead = 64

func (r *Reader) value(key string) rueidis.Completed {
	return r.Redis.B().Getrange().Key(key).Start(0).End(valueRead - 1).Build()
}

// valueOf parses the reply to Reader.value, nil if there is no such key or it has another type.
func valueOf(result rueidis.RedisResult, exists bool) (value *string, other bool) {
	text, err := result.ToString()
	if err != nil || text == "" && !exists {
		return nil, wrongType(err)
	}
	return &text, false
}

// small returns the policies whose entries are not longer than those of package limit. Reading a list of
// another program could take long.
func (r *Reader) small(ctx context.Context, all []*Policy) ([]*Policy, error) {
	const longest = 4 << 10 // bytes of an entry on average, overhead included; entries have about 60
	var commands rueidis.Commands
	for _, p := range all {
		if p.Stored.Type == "list" {
			commands = append(commands, r.Redis.B().Pttl().Key(p.Key).Build(), r.Redis.B().Llen().Key(p.Key).Build(),
				r.Redis.B().MemoryUsage().Key(p.Key).Build())
		}
	}
	replies, err := r.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	var fit []*Policy
	for _, p := range all {
		if p.Stored.Type == "string" {
			fit = append(fit, p) // a part of it is read
			continue
		}
		p.TTL = number(replies[0])
		held, bytes := number(replies[1]), number(replies[2])-2*int64(len(p.Key)) // without the name
		replies = replies[3:]
		if held > 0 && bytes/held > longest {
			p.Wrong = []string{fmt.Sprintf("%q holds %d bytes in %d parts, which package limit does not write", p.Key, bytes,
				held)}
			continue
		}
		fit = append(fit, p)
	}
	return fit, nil
}
