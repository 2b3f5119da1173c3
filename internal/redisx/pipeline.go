package redisx

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// MostPipelined is the number of calls in one pipeline at most.
const MostPipelined = 32

// Pipeline collects calls of scripts that leave at the same moment. With 256 callers on 10,000
// names, a write to the connection for each call costs a client more than all the rest: 8 us of
// processor time a decision instead of 3.
type Pipeline struct {
	Redis rueidis.Client

	// Gather lets other goroutines run, as long as that brings calls, until there are enough.
	Gather func(enough int, calls func() int)

	mu      sync.Mutex
	waiting *Pipelined // the one that has room, or nil if the next call begins another
}

// Call is a call of a script in a pipeline.
type Call struct {
	Script     *Script
	Keys, Args []string

	// Answer takes the reply. It must not wait.
	Answer func(reply rueidis.RedisMessage, err error)

	reply rueidis.RedisMessage
	err   error
}

// Pipelined is a number of calls that leave together.
type Pipelined struct{ calls []Call }

// Add adds a call to those that are sent next. The caller of the first call has to Send them: the
// others get nil.
func (p *Pipeline) Add(c Call) *Pipelined {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.waiting
	if d == nil {
		d = &Pipelined{calls: make([]Call, 0, MostPipelined)}
		p.waiting = d
	}
	d.calls = append(d.calls, c)
	if len(d.calls) == MostPipelined {
		p.waiting = nil
	}
	if len(d.calls) > 1 {
		return nil
	}
	return d
}

// Do runs a script in a pipeline and returns its reply. Its caller must wait for no context: the
// pipeline may carry calls of others.
func (p *Pipeline) Do(ctx context.Context, script *Script, keys, args []string) (reply rueidis.RedisMessage,
	err error) {
	done := make(chan struct{})
	d := p.Add(Call{Script: script, Keys: keys, Args: args, Answer: func(r rueidis.RedisMessage, failed error) {
		reply, err = r, failed
		close(done)
	}})
	if d != nil {
		p.Send(context.WithoutCancel(ctx), d)
	}
	<-done
	return reply, err
}

// Send sends a pipeline and passes on the replies.
func (p *Pipeline) Send(ctx context.Context, d *Pipelined) {
	p.gather(d)
	for i := range d.calls {
		d.calls[i].err = ErrNoReply // until its reply is there
	}
	defer func() { // also if the Redis client panics
		for i := range d.calls {
			c := &d.calls[i]
			c.Answer(c.reply, c.err)
		}
	}()
	send(ctx, p.Redis, d.calls)
}

// gather lets calls join a pipeline that is about to be sent. No call joins it after that.
func (p *Pipeline) gather(d *Pipelined) {
	p.Gather(MostPipelined, func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(d.calls)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == d {
		p.waiting = nil
	}
}

// send sends calls in one pipeline and sets their replies. The calls of scripts that the server
// does not know follow in a second one, with the text of the script.
func send(ctx context.Context, redis rueidis.Client, calls []Call) {
	commands := make(rueidis.Commands, len(calls))
	for i := range calls {
		c := &calls[i]
		commands[i] = redis.B().Evalsha().Sha1(c.Script.sha1).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
	}
	var unknown []*Call
	for i, result := range redis.DoMulti(ctx, commands...) {
		c := &calls[i]
		c.reply, c.err = result.ToMessage()
		if refused, ok := rueidis.IsRedisErr(c.err); ok && refused.IsNoScript() {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) == 0 {
		return
	}
	commands = commands[:0:0]
	for _, c := range unknown {
		commands = append(commands,
			redis.B().Eval().Script(c.Script.text).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
		c.err = ErrNoReply
	}
	for i, result := range redis.DoMulti(ctx, commands...) {
		unknown[i].reply, unknown[i].err = result.ToMessage()
	}
}
