package engine

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// pipelined is from how many names on, with calls at Redis at once, calls that begin at the same moment leave in one
// pipeline, and how many of them one holds. A write to the connection for each costs a client more than all the rest:
// with 256 callers on 10,000 names, 8 us of processor time a decision instead of 3. With few callers it is a loss: all of
// them would wait for one pipeline. make bench measures it.
const pipelined = 16

// pipeline gathers calls of different names.
type pipeline struct {
	mu      sync.Mutex
	waiting *pipelineBatch // the one that has room, nil where the next call begins another
}

// pipelineBatch is calls that leave together.
type pipelineBatch struct {
	commands rueidis.Commands
	results  []rueidis.RedisResult
	done     chan struct{} // closed once results are there
}

// run runs a script, in a pipeline with others where there are many. Not on a cluster: rueidis gives the results of
// a pipeline back once each node has answered, and no call should wait for a node that is not its own.
func (g *Engine) run(ctx context.Context, script *Script, keys, args []string) rueidis.RedisResult {
	if g.cluster || g.calling.Load() <= pipelined {
		return script.lua.Exec(ctx, g.redis, keys, args)
	}
	result := g.pipeline.run(ctx, g, g.redis.B().Evalsha().Sha1(script.sha1).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if err, ok := rueidis.IsRedisErr(result.Error()); ok && err.IsNoScript() {
		return script.lua.Exec(ctx, g.redis, keys, args)
	}
	return result
}

// run sends a command with those that come at the same moment.
func (p *pipeline) run(ctx context.Context, g *Engine, command rueidis.Completed) rueidis.RedisResult {
	p.mu.Lock()
	d := p.waiting
	lead := d == nil
	if lead {
		d = &pipelineBatch{commands: make(rueidis.Commands, 0, pipelined), done: make(chan struct{})}
		p.waiting = d
	}
	place := len(d.commands)
	d.commands = append(d.commands, command)
	if len(d.commands) == pipelined {
		p.waiting = nil
	}
	p.mu.Unlock()
	if lead {
		p.gather(d, &g.yields) // nobody adds to it after that
		d.results = g.redis.DoMulti(ctx, d.commands...)
		close(d.done)
	} else {
		<-d.done
	}
	return d.results[place]
}

// gather lets those that are about to come do so, as many as one pipeline holds.
func (p *pipeline) gather(d *pipelineBatch, yields *yields) {
	for size, room := 0, true; room; {
		again := yields.yield()
		p.mu.Lock()
		now := len(d.commands)
		if room = p.waiting == d; room && (now == size || !again) {
			p.waiting, room = nil, false
		}
		size = now
		p.mu.Unlock()
	}
}
