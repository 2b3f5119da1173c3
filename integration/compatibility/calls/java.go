package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

type java struct{ l *oracle.Limiter }

// Java returns a limiter of Redisson.
func Java(l *oracle.Limiter) Library { return java{l} }

func (java) String() string { return "Java" }

// words map parts of Redisson's messages to replies.
var words = []struct {
	part  string
	reply Reply
}{
	{"RateLimiter is not initialized", NotInitialized},
	{"Requested permits amount could not exceed defined rate", AboveRate},
	{"Requested permits amount cannot exceed defined rate", AboveRate},
	{"Permits amount can't be negative", Refused},
	{"attempt to perform arithmetic on", ScriptError},
	{"attempt to compare", ScriptError},
	{"ERR no such key", NoLimiter},
	{"ERR unknown command", Lacking},
	{"Wrong number of args calling Redis command", Lacking},
}

func (j java) Do(ctx context.Context, c Call) (Reply, error) {
	reply, err := j.do(ctx, c)
	var thrown *oracle.Error
	if errors.As(err, &thrown) {
		if reply, ok := meaning(thrown.Message); ok {
			return reply, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("java, %v: %w", c, err)
	}
	return reply, nil
}

// meaning finds the first of the words in a message. Releases add the script that failed, which
// holds other words.
func meaning(message string) (meaning Reply, found bool) {
	first := len(message)
	for _, word := range words {
		if at := strings.Index(message, word.part); at >= 0 && at < first {
			first, meaning, found = at, word.reply, true
		}
	}
	return meaning, found
}

func (j java) do(ctx context.Context, c Call) (Reply, error) {
	rate := oracle.Rate{Type: oracle.Overall, Permits: c.Permits, Interval: c.Interval, KeepAlive: c.KeepAlive}
	if c.PerClient {
		rate.Type = oracle.PerClient
	}
	at := time.Now().Add(c.Expiry)
	method, _, _ := strings.Cut(string(c.Op), "(")
	var args []any
	switch c.Op {
	case TrySetRate:
		return truth(j.l.TrySetRate(ctx, rate))
	case SetRate:
		return nothing(j.l.SetRate(ctx, rate))
	case SetRateArgs:
		return nothing(j.l.SetRateArgs(ctx, rate, c.KeepState))
	case UpdateRate:
		return truth(j.l.UpdateRate(ctx, rate, c.KeepState))
	case Take:
		return truth(j.l.TryAcquire(ctx, c.Permits))
	case TryAcquire, Acquire, Release:
		args = []any{c.Permits}
	case TryAcquireUntil:
		args = []any{c.Permits, c.Timeout.Milliseconds(), oracle.TimeUnit}
	case Expire:
		args = []any{c.Expiry.Milliseconds(), oracle.TimeUnit}
	case ExpireAt:
		args = []any{at.UnixMilli()}
	case ExpireIfSet, ExpireIfNotSet, ExpireIfGreater, ExpireIfLess:
		args = []any{c.Expiry}
	case ExpireAtIfSet, ExpireAtIfNotSet, ExpireAtIfGreater, ExpireAtIfLess:
		args = []any{at}
	case Rename, RenameNX, Copy, CopyAndReplace:
		args = []any{c.NewName}
	}
	result, err := j.l.Call(ctx, method, args...)
	switch result := result.(type) {
	case bool:
		return truth(result, err)
	case float64:
		return numberReply(c.Op, int64(result)), err
	case map[string]any: // a configuration
		if result["rate"] == 0.0 && result["intervalMillis"] == 0.0 {
			return NotInitialized, err
		}
		interval := time.Duration(result["intervalMillis"].(float64)) * time.Millisecond
		return rateReply(result["type"].(string), int64(result["rate"].(float64)), interval), err
	}
	return nothing(err)
}

// numberReply returns the reply to a call whose result is a number.
func numberReply(op Op, n int64) Reply {
	switch {
	case op == SizeInMemory:
		return Reply(fmt.Sprint(n > 0))
	case n < 0 || op == AvailablePermits:
		return Reply(fmt.Sprint(n))
	case op == ExpireTime:
		n = time.Until(time.UnixMilli(n)).Milliseconds()
	}
	return lifetime(n)
}
