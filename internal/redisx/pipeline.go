package redisx

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// MaxPipelined is the maximum number of calls in a pipeline.
const MaxPipelined = 32

// Pipeline collects calls of scripts that are sent at the same moment. With many callers on many
// names, a write to the connection per call would cost the client more than all other work.
type Pipeline struct {
	Redis rueidis.Client

	// Collect lets other goroutines run while that adds calls, until there are enough.
	Collect func(enough int, calls func() int)

	nodes *Pipelines // that it is of; nil for none, or for a single Redis

	mu      sync.Mutex
	waiting *Pipelined // has room; nil if the next call begins another

	calls sync.Pool // *Call of Do
}

// Call is a call of a script in a pipeline.
type Call struct {
	Script     *Script
	Keys, Args []string
	// Context, if not nil, has an error once the call has no caller: it is not sent again then.
	Context context.Context //nolint:containedctx // each call of a pipeline has its own

	// Done is called when Reply and Err are set. It must not block.
	Done func()

	Reply rueidis.RedisMessage
	Err   error

	done chan struct{} // of Do: has an element when the call is done
}

func (c *Call) ended() error {
	if c.Context == nil {
		return nil
	}
	return c.Context.Err()
}

// read reads the result of the call in a pipeline. If no node has the slot of one call, rueidis sends
// none of them: each is made alone, as if it was redirected.
func (c *Call) read(result rueidis.RedisResult) {
	if c.Reply, c.Err = result.ToMessage(); errors.Is(c.Err, rueidis.ErrNoSlot) {
		c.Err = errRedirected
	}
}

// Pipelined has the calls of one pipeline.
type Pipelined struct{ calls []*Call }

// Add adds a call to the next pipeline. It returns the pipeline to the caller of the first call, who
// has to Send it, and nil to the others.
func (p *Pipeline) Add(c *Call) *Pipelined {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.waiting
	if d == nil {
		d = &Pipelined{calls: make([]*Call, 0, MaxPipelined)}
		p.waiting = d
	}
	d.calls = append(d.calls, c)
	if len(d.calls) == MaxPipelined {
		p.waiting = nil
	}
	if len(d.calls) > 1 {
		return nil
	}
	return d
}

// Do runs a script in a pipeline and returns its reply. If ctx has ended, it sends nothing. Later it
// does not stop when ctx ends, since the pipeline may carry calls of others. If a node redirects the
// call, Do makes it alone.
func (p *Pipeline) Do(ctx context.Context, script *Script, keys, args []string) (rueidis.RedisMessage, error) {
	if err := ctx.Err(); err != nil {
		return rueidis.RedisMessage{}, err
	}
	c, _ := p.calls.Get().(*Call)
	if c == nil {
		done := make(chan struct{}, 1)
		c = &Call{done: done, Done: func() { done <- struct{}{} }}
	}
	c.Script, c.Keys, c.Args, c.Context = script, keys, args, ctx
	if d := p.Add(c); d != nil {
		p.Send(context.WithoutCancel(ctx), d)
	}
	<-c.done
	reply, err := c.Reply, c.Err
	*c = Call{done: c.done, Done: c.Done}
	p.calls.Put(c)
	if errors.Is(err, errRedirected) {
		return script.Exec(ctx, p.Redis, keys, args)
	}
	return reply, err
}

// Send sends a pipeline and completes its calls.
func (p *Pipeline) Send(ctx context.Context, d *Pipelined) {
	p.collect(d)
	for _, c := range d.calls {
		c.Err = ErrNoReply // until there is a reply
	}
	for _, c := range slices.Backward(d.calls) {
		defer c.Done() // also if the Redis client panics, or Done of another call
	}
	send(ctx, p.Redis, d.calls)
	if p.nodes != nil {
		p.nodes.sent(d.calls)
	}
}

// collect lets calls join a pipeline before it is sent, and then closes it for further calls.
func (p *Pipeline) collect(d *Pipelined) {
	p.Collect(MaxPipelined, func() int {
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

// send sends calls in one pipeline and sets their replies. It repeats the calls of scripts that the
// server does not know in a second pipeline, with the text of the script.
func send(ctx context.Context, redis rueidis.Client, calls []*Call) {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		call := redis.B().Evalsha().Sha1(c.Script.sha1).Numkeys(int64(len(c.Keys)))
		commands[i] = call.Key(c.Keys...).Arg(c.Args...).Build()
	}
	var unknown []*Call
	for i, result := range redis.DoMulti(paced(ctx, redis, true), commands...) {
		c := calls[i]
		c.read(result)
		if refused, ok := rueidis.IsRedisErr(c.Err); ok && refused.IsNoScript() {
			if ended := c.ended(); ended != nil {
				c.Err = ended
			} else {
				unknown = append(unknown, c)
			}
		}
	}
	if len(unknown) == 0 {
		return
	}
	commands = commands[:0:0]
	for _, c := range unknown {
		commands = append(commands,
			redis.B().Eval().Script(c.Script.text).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
		c.Err = ErrNoReply
	}
	for i, result := range redis.DoMulti(paced(ctx, redis, true), commands...) {
		unknown[i].read(result)
	}
}
