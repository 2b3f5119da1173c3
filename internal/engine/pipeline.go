package engine

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// From so many names on with calls at Redis at once, calls that begin at the same moment leave in one pipeline. A write to the
// connection for each costs a client more than all the rest: with 256 callers on 10,000 names, 8 us of processor time a decision
// instead of 3. With few callers it is a loss: all of them would wait for one pipeline. make bench measures it.
const (
	pipelined     = 16
	pipelineCalls = 32 // in one
)

// pipeline gathers calls of different names.
type pipeline struct {
	redis  rueidis.Client
	yields *yields

	mu      sync.Mutex
	waiting *pipelineBatch // the one that has room, nil where the next call begins another
	spare   sync.Pool      // of *pipelineBatch
}

// pipelineBatch is calls that leave together.
type pipelineBatch struct {
	calls []scriptCall
	done  chan struct{} // closed once the calls have their replies; nil where nobody reads one here
}

// scriptCall is a call of a script in a pipeline, and its reply.
type scriptCall struct {
	script     *Script
	keys, args []string
	reply      rueidis.RedisMessage
	err        error

	// answer takes the reply if no caller waits for it, and waits for nothing.
	answer func(ctx context.Context, reply rueidis.RedisMessage, err error)
}

// join adds a call to those that are sent next. The caller of the first call is to flush them.
func (p *pipeline) join(c scriptCall) (d *pipelineBatch, place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d = p.waiting
	if d == nil {
		var ok bool
		if d, ok = p.spare.Get().(*pipelineBatch); !ok {
			d = &pipelineBatch{calls: make([]scriptCall, 0, pipelineCalls)}
		}
		p.waiting = d
	}
	if c.answer == nil && d.done == nil {
		d.done = make(chan struct{})
	}
	place = len(d.calls)
	d.calls = append(d.calls, c)
	if len(d.calls) == pipelineCalls {
		p.waiting = nil
	}
	return d, place
}

// keep keeps a pipelineBatch for reuse, if no caller reads a reply in it.
func (p *pipeline) keep(d *pipelineBatch) {
	if d.done != nil {
		return
	}
	clear(d.calls)
	d.calls = d.calls[:0]
	p.spare.Put(d)
}

// gather lets calls join a pipeline that is about to be sent, and closes it.
func (p *pipeline) gather(d *pipelineBatch) {
	p.yields.gather(pipelineCalls, func() int {
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

// flush sends a pipeline. It wakes the callers that wait for a reply, and passes on the other replies.
func (p *pipeline) flush(ctx context.Context, d *pipelineBatch) {
	p.gather(d) // no call joins it after that
	for i := range d.calls {
		d.calls[i].err = errBroken // as long as it has no reply
	}
	defer func() { // also where the connection panics
		if d.done != nil {
			close(d.done)
		}
		for i := range d.calls {
			if c := &d.calls[i]; c.answer != nil {
				c.answer(ctx, c.reply, c.err)
			}
		}
		p.keep(d)
	}()
	send(ctx, p.redis, d.calls)
}

// send sends calls in one pipeline and sets their replies. The calls of scripts that the server does not know follow in
// a second one, with the text of the script.
func send(ctx context.Context, redis rueidis.Client, calls []scriptCall) {
	commands := make(rueidis.Commands, len(calls))
	for i := range calls {
		c := &calls[i]
		commands[i] = redis.B().Evalsha().Sha1(c.script.sha1).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	var unknown []*scriptCall
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
		commands = append(commands, redis.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build())
		c.err = errBroken // until its reply is there
	}
	for i, result := range redis.DoMulti(ctx, commands...) {
		unknown[i].reply, unknown[i].err = result.ToMessage()
	}
}
