package look

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// valueRead is how much is read of a value: more than any number has, and not all of what somebody may have put there.
const valueRead = 64

func (r *Reader) value(key string) rueidis.Completed {
	return r.Redis.B().Getrange().Key(key).Start(0).End(valueRead - 1).Build()
}

// value reads what Reader.value asks for, nil where there is no such key.
func value(result rueidis.RedisResult, exists bool) (value *string, other bool) {
	value, other = text(result)
	if value != nil && *value == "" && !exists {
		return nil, other
	}
	return value, other
}

// small returns the policies whose keys hold no longer entries than package limit writes. A look at a list that another program made
// could be a long one.
func (r *Reader) small(ctx context.Context, all []*Policy) ([]*Policy, error) {
	const longest = 4 << 10 // bytes of an entry on average, with what they take besides: some 60 would do
	var commands rueidis.Commands
	for _, p := range all {
		if p.Stored.Type() == "list" {
			commands = append(commands, r.Redis.B().Pttl().Key(p.Key).Build(), r.Redis.B().Llen().Key(p.Key).Build(), r.Redis.B().MemoryUsage().Key(p.Key).Build())
		}
	}
	told, err := r.ask(ctx, commands)
	if err != nil {
		return nil, err
	}
	var fit []*Policy
	for _, p := range all {
		if p.Stored.Type() == "string" {
			fit = append(fit, p) // of which a part is read
			continue
		}
		p.TTL = number(told[0])
		held, bytes := number(told[1]), number(told[2])-2*int64(len(p.Key)) // the name is counted with it
		told = told[3:]
		if held > 0 && bytes/held > longest {
			p.Wrong = []string{fmt.Sprintf("%q holds %d bytes in %d parts, which package limit does not write", p.Key, bytes, held)}
			continue
		}
		fit = append(fit, p)
	}
	return fit, nil
}
