package rratelimiter

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/include"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

//go:embed script.lua
var acquireSource string

//go:embed scripts
var scriptFiles embed.FS

// scriptTexts are the scripts as Redis runs them, by name.
var scriptTexts = assemble(include.Parts)

// assemble returns the texts of the scripts, by name.
func assemble(included redisx.Parts) map[string]string {
	texts := make(map[string]string)
	for name, source := range redisx.ReadParts(scriptFiles, "scripts") {
		texts[name] = included.Expand(source)
	}
	for name, waits := range map[string]bool{"acquire": false, "wait": true} {
		texts[name] = included.Expand(redisx.Code(include.Waiting(acquireSource, waits)))
	}
	return texts
}

var (
	acquireScript    = redisx.NewScript(scriptTexts["acquire"])
	waitScript       = redisx.NewScript(scriptTexts["wait"]) // acquire for callers that wait, beside those of other Clients
	releaseScript    = redisx.NewScript(scriptTexts["release"])
	drainScript      = redisx.NewScript(scriptTexts["drain"])
	refundScript     = redisx.NewScript(scriptTexts["refund"])
	recountScript    = redisx.NewScript(scriptTexts["recount"])
	availableScript  = redisx.NewScript(scriptTexts["available"])
	trySetRateScript = redisx.NewScript(scriptTexts["trysetrate"])
	setRateScript    = redisx.NewScript(scriptTexts["setrate"])
	eachScript       = redisx.NewScript(scriptTexts["each"])
	expireTimeScript = redisx.NewScript(scriptTexts["expiretime"])
	moveScript       = redisx.NewScript(scriptTexts["move"])
)

// dated are the scripts whose first argument is the time, and which depend on it.
var dated = []*redisx.Script{releaseScript, drainScript, refundScript, availableScript, setRateScript}

// The codes of replies: the first element of one that is an array. internal/include/names.lua has the
// same names.
const (
	replyDone = iota
	replyAgain
	replyNoRate
	replyCorrupt
	replyPrefetched
	replyDoneOwn // of a PerClient limiter
	replyNeedsKeys
)

// replyUnsupported is the reply of the scripts of Expire and Copy if the server lacks a command.
const replyUnsupported = -2

// cursorArg is the index of the cursor with which a script continues an earlier call: ARGV[6].
const cursorArg = 5

// eval runs a script. again is that of engine.Eval. Its caller must wait for ctx at most (see engine.Detach).
func (p *protocol) eval(ctx context.Context, run *engine.Run,
	again func(rueidis.RedisMessage) (bool, error)) (rueidis.RedisMessage, error) {
	var renew func([]string)
	if slices.Contains(dated, run.Script) {
		renew = func(args []string) { args[timeArg] = p.client.nowText() } // a grant must not look older than it is
	}
	return p.client.engine.Eval(ctx, p, run, renew, again)
}

// pages runs a script that replies {0, ...}, until it has no more to do or ctx ends. ctx is detached
// from the caller's context. The Reply that it returns is read up to the 0.
func (p *protocol) pages(ctx context.Context, script *redisx.Script, args []string) (r redisx.Reply, err error) {
	run, initial := &engine.Run{Call: redisx.Call{Script: script, Keys: p.namedKeys(), Args: args}}, p.initial
	if script == refundScript || script == recountScript { // without a rate there is nothing to do
		initial = nil
	}
	if script == recountScript && len(args) > validArg && len(run.Keys) == sharedKeys {
		run.Keys = append(slices.Clip(run.Keys), p.mark())
	}
	_, err = p.eval(ctx, run, func(message rueidis.RedisMessage) (bool, error) {
		r = redisx.ReadReply(message)
		code, again, err := p.next(run, &r, initial)
		if err == nil && !again && code != replyDone {
			err = p.unexpected(&r)
		}
		return again, err
	})
	return r, err
}

// next reads the code of a reply. If its script needs another call, next prepares that. Before it, initial calls set
// the rate of a limiter without one.
func (p *protocol) next(run *engine.Run, r *redisx.Reply, initial []redisx.Call) (code int64, again bool, err error) {
	code, err = p.code(r)
	switch {
	case errors.Is(err, ErrNotInitialized) && run.Initialize(initial):
		return code, true, nil
	case err != nil:
		return code, false, err
	case code == replyNeedsKeys && len(run.Keys) < len(p.keys):
		p.hint().setPerClient()
		if run.Keys = p.keys[:]; run.Script == waitScript { // a PerClient limiter has no waiters of other Clients
			run.Script = acquireScript
		}
		return code, true, nil
	case code == replyAgain:
		run.Args = withCursor(run.Args, r.Text())
		return code, true, nil
	}
	return code, false, nil
}

// runInt runs a script that replies a number and changes the limiters with the changed keys.
func (p *protocol) runInt(ctx context.Context, changed []string, script *redisx.Script, keys []string,
	args ...string) (int64, error) {
	message, err := engine.ChangeLimiters(ctx, p.client.engine, changed,
		func(ctx context.Context) (rueidis.RedisMessage, error) {
			return p.eval(ctx, &engine.Run{Call: redisx.Call{Script: script, Keys: keys, Args: args}}, nil)
		})
	if err != nil {
		return 0, err
	}
	if message.IsInt64() {
		return message.AsInt64()
	}
	r := redisx.ReadReply(message)
	if _, err := p.code(&r); err != nil {
		return 0, err
	}
	return 0, p.unexpected(&r)
}

// withCursor returns the arguments of the call that continues at cursor.
func withCursor(args []string, cursor string) []string {
	next := make([]string, max(len(args), cursorArg+1))
	copy(next, args)
	next[cursorArg] = cursor
	return next
}

func (p *protocol) unexpected(reply fmt.Stringer) error {
	return fmt.Errorf("rratelimiter: limiter %q: unknown reply of the script: %s", p.name, reply.String())
}

// Explain adds the limiter's name to the error of a Redis call. For WRONGTYPE it returns a
// StateError with the key.
func (p *protocol) Explain(ctx context.Context, err error) error {
	if key, typ := redisx.WrongType(ctx, p.client.redis, err, p.keys[:], keyTypes[:]); key != "" {
		return &StateError{Key: key, Value: typ}
	}
	return fmt.Errorf("rratelimiter: limiter %q: %w", p.name, err)
}
