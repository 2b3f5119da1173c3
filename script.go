package rratelimiter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

//go:embed script.lua
var scriptSource string

// The scripts, each of the parts of script.lua that its call runs and of nothing else.
var (
	acquireScript = script("hint", "limiter", "wanted", "window", "value", "refuse", "reclaim", "drift", "acquire",
		"store", "grant", "swap", "checked", "answer", "expiry")
	leaseScript = script("hint", "limiter", "wanted", "window", "value", "refuse", "reclaim", "drift", "acquire", "lease",
		"store", "grant", "swap", "checked", "answer", "leased", "expiry")
	releaseScript = script("unhinted", "limiter", "value", "window", "reclaim", "cap", "release",
		"store", "swap", "checked", "expiry")
	giveBackScript = script("unhinted", "limiter", "value", "window", "reclaim", "cap", "giveback",
		"store", "swap", "checked", "expiry")
	availableScript  = script("unhinted", "limiter", "value", "available")
	trySetRateScript = script("trysetrate")
	setRateScript    = script("setrate", "expiry")
	eachScript       = script("slack", "each", "outlive")
	expireTimeScript = script("expiretime")
	moveScript       = script("slack", "move", "outlive")
)

// dated is the scripts whose first argument is the time.
var dated = []*engine.Script{releaseScript, giveBackScript, availableScript, setRateScript}

// script puts a script together from parts of script.lua.
func script(parts ...string) *engine.Script {
	return engine.NewScript(scriptText("names") + scriptText(parts...))
}

func scriptText(parts ...string) string {
	var text strings.Builder
	for _, part := range parts {
		_, body, found := strings.Cut(scriptSource, "\n--@ "+part+"\n")
		if !found {
			panic("rratelimiter: script.lua has no part " + part)
		}
		body, _, _ = strings.Cut(body, "\n--@ ")
		for line := range strings.Lines(body) {
			// A line may stand for a part. The comments stay here: a server keeps the text of every script that it was sent.
			if inner, ok := strings.CutPrefix(strings.TrimSpace(line), "--@"); ok {
				text.WriteString(scriptText(inner))
			} else if !strings.HasPrefix(strings.TrimLeft(line, " "), "--") {
				text.WriteString(strings.TrimLeft(line, " "))
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// The first number of a reply of more than one, as script.lua says.
const (
	replyDone = iota
	replyAgain
	replyNotInitialized
	replyCorrupt
	replyLeased
	replyDoneOwn // of a PerClient limiter
	replyNeedsKeys
)

// replyUnsupported is what the scripts of Expire and Copy reply where the server lacks what they need.
const replyUnsupported = -2

// memberArg is the argument with which the acquire script gets the member of its grant: ARGV[2].
const memberArg = 1

// hintArg and countArg are the arguments with which the acquire script gets its hint and the cursor of a count: ARGV[3] and
// ARGV[9].
const (
	hintArg  = 2
	countArg = 8
)

// leaseSpanArg is the last argument of the acquire script: ARGV[11].
const leaseSpanArg = 10

// runsArg is the argument with which the acquire script gets its requests: ARGV[8].
const runsArg = 7

// cursorArg is the argument with which a script goes on where the call before it stopped: ARGV[6].
const cursorArg = 5

// eval runs a script: it must be called where nobody waits longer than ctx (see engine.Detached).
func (l *Limiter) eval(ctx context.Context, script *engine.Script, keys, args []string) (rueidis.RedisMessage, error) {
	var renew func([]string)
	if slices.Contains(dated, script) {
		renew = func(args []string) { args[0] = l.client.nowText() } // a grant must not look older than it is
	}
	message, err := l.client.engine.Eval(ctx, script, keys, args, renew)
	if err != nil {
		err = l.explain(ctx, err)
	}
	return message, err
}

// ask runs a script that replies {0, ...} and only reads, askChange one that changes the limiter.
func (l *Limiter) ask(ctx context.Context, script *engine.Script, args ...string) ([]rueidis.RedisMessage, error) {
	return engine.Detached(ctx, func(detached context.Context) ([]rueidis.RedisMessage, error) {
		return l.pages(detached, ctx.Err, script, args)
	})
}

func (l *Limiter) askChange(ctx context.Context, script *engine.Script, args ...string) ([]rueidis.RedisMessage, error) {
	return engine.Changing(ctx, l.client.engine, l.keys[:1],
		func(detached context.Context) ([]rueidis.RedisMessage, error) {
			return l.pages(detached, ctx.Err, script, args)
		})
}

// mostPages is how many calls a script may take: enough for some hundred million grants.
const mostPages = 1 << 20

// pages runs a script that replies {0, ...}, as often as it has more to do. It ends with the caller's context as well,
// which ctx, detached from it, does not: ended returns the error of that, or nil.
func (l *Limiter) pages(ctx context.Context, ended func() error, script *engine.Script, args []string) (
	[]rueidis.RedisMessage, error,
) {
	all := false
	for range mostPages {
		message, err := l.eval(ctx, script, l.namedKeys(all), args)
		if err != nil {
			return nil, err
		}
		reply, err := message.ToArray()
		if err != nil {
			return nil, l.unexpected(message)
		}
		if !all && needsKeys(reply) {
			l.hint().needsAllKeys()
			all = true
			continue
		}
		cursor, again, err := l.status(reply)
		switch {
		case err != nil:
			return nil, err
		case !again:
			return reply, nil
		}
		if err := ended(); err != nil {
			return nil, err
		}
		args = withCursor(args, cursor)
	}
	return nil, l.unfinished()
}

func (l *Limiter) unfinished() error {
	return fmt.Errorf("rratelimiter: limiter %q: the script has not finished after %d calls", l.calls.Name, mostPages)
}

// never is the end of a call that no context ends.
func never() error { return nil }

// askInt runs a script that replies a number and changes limiters of these keys.
func (l *Limiter) askInt(ctx context.Context, changed []string, script *engine.Script, keys []string, args ...string) (int64, error) {
	message, err := engine.Changing(ctx, l.client.engine, changed, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return l.eval(ctx, script, keys, args)
	})
	if err != nil {
		return 0, err
	}
	if message.IsInt64() {
		return message.AsInt64()
	}
	if reply, err := message.ToArray(); err == nil {
		if _, _, err := l.status(reply); err != nil {
			return 0, err
		}
	}
	return 0, l.unexpected(message)
}

// withCursor gives the arguments of the call that goes on at cursor.
func withCursor(args []string, cursor string) []string {
	next := make([]string, max(len(args), cursorArg+1))
	copy(next, args)
	next[cursorArg] = cursor
	return next
}

// status reads how a reply of several elements begins: the error that it stands for, or whether to ask again.
func (l *Limiter) status(reply []rueidis.RedisMessage) (cursor string, again bool, err error) {
	if len(reply) == 0 {
		return "", false, fmt.Errorf("rratelimiter: limiter %q: empty reply from the script", l.calls.Name)
	}
	kind, err := reply[0].AsInt64()
	switch {
	case err != nil:
	case kind == replyDone, kind == replyDoneOwn:
		return "", false, nil
	case kind == replyNotInitialized:
		return "", false, fmt.Errorf("%w: %q has no rate, set one with TrySetRate or SetRate", ErrNotInitialized, l.calls.Name)
	case kind == replyAgain && len(reply) == 2:
		if cursor, err := reply[1].ToString(); err == nil {
			return cursor, true, nil
		}
	case kind == replyCorrupt && len(reply) == 4:
		key, keyErr := reply[1].AsInt64()
		field, fieldErr := reply[2].ToString()
		value, valueErr := reply[3].ToString()
		if keyErr == nil && fieldErr == nil && valueErr == nil && key >= 1 && key <= int64(len(l.keys)) {
			return "", false, &StateError{Key: l.keys[key-1], Field: field, Value: value}
		}
	}
	return "", false, l.unexpected(reply[0])
}

func (l *Limiter) unexpected(message rueidis.RedisMessage) error {
	return fmt.Errorf("rratelimiter: limiter %q: the script replied %s, which this version does not know", l.calls.Name, message.String())
}

// explain makes the error of a Redis call say which limiter it is about, and where it says that a key is of
// another type, which key that is.
func (l *Limiter) explain(ctx context.Context, err error) error {
	var redisErr *rueidis.RedisError
	if errors.As(err, &redisErr) && strings.Contains(redisErr.Error(), "WRONGTYPE") {
		if state := l.wrongType(ctx); state != nil {
			return state
		}
	}
	return fmt.Errorf("rratelimiter: limiter %q: %w", l.calls.Name, err)
}

// wrongType finds the first key of the limiter that holds another type than it should, or nil.
func (l *Limiter) wrongType(ctx context.Context) error {
	types := make(rueidis.Commands, len(l.keys))
	for i, key := range l.keys {
		types[i] = l.client.redis.B().Arbitrary("TYPE").Keys(key).Build()
	}
	for i, result := range l.client.redis.DoMulti(ctx, types...) {
		if got, err := result.ToString(); err == nil && got != keyTypes[i] && got != "none" {
			return &StateError{Key: l.keys[i], Value: got}
		}
	}
	return nil
}
