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
	{"bad argument #2 to 'unpack' (data string too short)", ScriptError},
	{"Cannot parse null string", NotInitialized}, // getConfig of releases before 3.17
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
	l := j.l
	rate := oracle.Rate{Type: oracle.Overall, Permits: c.Permits, Interval: c.Interval, KeepAlive: c.KeepAlive}
	if c.PerClient {
		rate.Type = oracle.PerClient
	}
	at := time.Now().Add(c.Expiry)
	switch c.Op {
	case TrySetRate:
		return truth(l.TrySetRate(ctx, rate))
	case SetRate:
		return nothing(l.SetRate(ctx, rate))
	case SetRateArgs:
		return nothing(l.SetRateArgs(ctx, rate, c.KeepState))
	case UpdateRate:
		return truth(l.UpdateRate(ctx, rate, c.KeepState))
	case GetConfig:
		got, err := l.Config(ctx)
		if err == nil && got.Permits == 0 && got.Interval == 0 {
			return NotInitialized, nil
		}
		return rateReply(string(got.Type), got.Permits, got.Interval), err
	case TryAcquireOne:
		return truth(l.TryAcquireOne(ctx))
	case Take:
		return truth(l.TryAcquire(ctx, c.Permits))
	case TryAcquireOneUntil:
		return truth(l.TryAcquireOneWithin(ctx, c.Timeout))
	case AcquireOne:
		return nothing(l.AcquireOne(ctx))
	case Expire:
		return truth(l.Expire(ctx, c.Expiry))
	case ExpireAt:
		return truth(l.ExpireAt(ctx, at))
	case ExpireIfSet, ExpireIfNotSet, ExpireIfGreater, ExpireIfLess:
		return truth(l.ExpireIf(ctx, oracle.ExpireCondition(c.Op), c.Expiry))
	case ExpireAtIfSet, ExpireAtIfNotSet, ExpireAtIfGreater, ExpireAtIfLess:
		return truth(l.ExpireAtIf(ctx, oracle.ExpireCondition(c.Op.withoutInstant()), at))
	case RemainTimeToLive:
		return lifetime(l.RemainTimeToLive(ctx))
	case ExpireTime:
		at, err := l.ExpireTime(ctx)
		if at < 0 {
			return number(at, err)
		}
		return lifetime(time.Until(time.UnixMilli(at)).Milliseconds(), err)
	case Copy:
		return truth(l.Copy(ctx, c.NewName))
	case CopyAndReplace:
		return truth(l.CopyAndReplace(ctx, c.NewName))
	}
	return shared(ctx, l, c)
}
