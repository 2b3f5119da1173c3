// Package calls makes the same call of a rate limiter in Go, with this library, and in Java, with
// Redisson. Both results have the same words.
package calls

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Library is a limiter of this library or of Redisson.
type Library interface {
	// Do makes a call. It returns an error if the call could not be made, or failed in a way that no
	// test expects: oracle.ErrUnsupported if the release of Redisson lacks the call.
	Do(ctx context.Context, call Call) (Reply, error)
	// String is "Go" or "Java".
	String() string
}

// Call is one call with its arguments. The arguments of other calls are zero.
type Call struct {
	Op        Op            `json:"op"`
	Permits   int64         `json:"permits,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	PerClient bool          `json:"perClient,omitempty"` // the type of a rate; OVERALL otherwise
	Interval  time.Duration `json:"interval,omitempty"`
	KeepAlive time.Duration `json:"keepAlive,omitempty"`
	KeepState bool          `json:"keepState,omitempty"`
	Expiry    time.Duration `json:"expiry,omitempty"` // from now on
	NewName   string        `json:"newName,omitempty"`
}

// Op is the name of a call: Redisson's, with the form where there are several.
type Op string

// The calls.
const (
	TrySetRate        Op = "trySetRate"
	SetRate           Op = "setRate"
	SetRateArgs       Op = "setRate(args)"
	UpdateRate        Op = "updateRate(args)"
	GetConfig         Op = "getConfig"
	TryAcquireOne     Op = "tryAcquire()"
	TryAcquire        Op = "tryAcquire(permits)"
	TryAcquireUntil   Op = "tryAcquire(permits, timeout)"
	Take              Op = "take" // only Go has it: Java's tryAcquire(permits) with the numbers of a Decision
	Acquire           Op = "acquire(permits)"
	Release           Op = "release"
	AvailablePermits  Op = "availablePermits"
	Expire            Op = "expire"
	ExpireAt          Op = "expireAt"
	ExpireIfSet       Op = "expireIfSet"
	ExpireIfNotSet    Op = "expireIfNotSet"
	ExpireIfGreater   Op = "expireIfGreater"
	ExpireIfLess      Op = "expireIfLess"
	ExpireAtIfSet     Op = "expireIfSet(instant)"
	ExpireAtIfNotSet  Op = "expireIfNotSet(instant)"
	ExpireAtIfGreater Op = "expireIfGreater(instant)"
	ExpireAtIfLess    Op = "expireIfLess(instant)"
	ClearExpire       Op = "clearExpire"
	RemainTimeToLive  Op = "remainTimeToLive"
	ExpireTime        Op = "getExpireTime"
	Exists            Op = "isExists"
	Delete            Op = "delete"
	Unlink            Op = "unlink"
	Rename            Op = "rename"
	RenameNX          Op = "renamenx"
	Copy              Op = "copy"
	CopyAndReplace    Op = "copyAndReplace"
	Touch             Op = "touch"
	SizeInMemory      Op = "sizeInMemory"
)

// WithoutInstant returns the call that sets the same expiry by a duration.
func (o Op) WithoutInstant() Op {
	if o == ExpireAt {
		return Expire
	}
	return Op(strings.TrimSuffix(string(o), "(instant)"))
}

// Of returns a call of permits.
func Of(op Op, permits int64) Call { return Call{Op: op, Permits: permits} }

// Just returns a call without arguments.
func Just(op Op) Call { return Call{Op: op} }

// Rate returns a call that sets a rate.
func Rate(op Op, permits int64, interval time.Duration) Call {
	return Call{Op: op, Permits: permits, Interval: interval}
}

// KeepAlive returns a call that sets a rate of 10 an hour with a keep-alive.
func KeepAlive(op Op, d time.Duration) Call {
	return Call{Op: op, Permits: 10, Interval: time.Hour, KeepAlive: d}
}

// KeepState returns a call that sets a rate and keeps the state.
func KeepState(op Op, permits int64, interval time.Duration) Call {
	return Call{Op: op, Permits: permits, Interval: interval, KeepState: true}
}

// Expiring returns a call with an expiry.
func Expiring(op Op, d time.Duration) Call { return Call{Op: op, Expiry: d} }

// Reply is the result of a call: "done", "true", "false", a number, a rate as "OVERALL 10/1m0s", a
// time to live, or one of the errors below.
type Reply string

// The errors of both libraries, and the reply of a call without a result.
const (
	Done           Reply = "done"
	NotInitialized Reply = "not initialized"
	AboveRate      Reply = "above the rate"
	Refused        Reply = "rejected" // by the library, before a call to Redis
	NoLimiter      Reply = "no limiter of that name"
	ScriptError    Reply = "error from the script" // Redisson's script cannot read the state
	Lacking        Reply = "the server lacks a command"
)

// String returns the call as messages show it.
func (c Call) String() string {
	args := []string{}
	add := func(name string, there bool, value any) {
		if there {
			args = append(args, fmt.Sprintf("%s %v", name, value))
		}
	}
	switch c.Op {
	case TrySetRate, SetRate, SetRateArgs, UpdateRate:
		kind := "OVERALL"
		if c.PerClient {
			kind = "PER_CLIENT"
		}
		args = append(args, fmt.Sprintf("%s %d/%v", kind, c.Permits, c.Interval))
	default:
		add("permits", c.Permits != 0, c.Permits)
	}
	add("timeout", c.Timeout != 0, c.Timeout)
	add("keepAlive", c.KeepAlive != 0, c.KeepAlive)
	add("keepState", c.KeepState, c.KeepState)
	add("in", c.Expiry != 0, c.Expiry)
	add("to", c.NewName != "", c.NewName)
	return string(c.Op) + " [" + strings.Join(args, ", ") + "]"
}

func truth(yes bool, err error) (Reply, error) { return Reply(fmt.Sprint(yes)), err }

func number(n int64, err error) (Reply, error) { return Reply(fmt.Sprint(n)), err }

func nothing(err error) (Reply, error) { return Done, err }

// grain is the unit to which replies round times to live. Tests use multiples of it.
const grain = time.Minute

func lifetime(ms int64) Reply {
	return Reply((time.Duration(ms) * time.Millisecond).Round(grain).String())
}

// Decision is the reply of Go's Take, with times rounded to a minute. Java's reply to the same call
// is the part before the comma.
func Decision(granted bool, limit, left int64, retry, reset time.Duration) Reply {
	return Reply(fmt.Sprintf("%t, %d of %d left, again in %v, all in %v", granted, left, limit, retry.Round(grain),
		reset.Round(grain)))
}

func rateReply(kind string, permits int64, interval time.Duration) Reply {
	return Reply(fmt.Sprintf("%s %d/%v", kind, permits, interval))
}
