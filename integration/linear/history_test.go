package linear

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rratelimiter/rratelimiter"
)

// Call names a call of a limiter.
type Call string

// The calls of a history.
const (
	TryAcquire       Call = "TryAcquire"
	TakeUpTo         Call = "TakeUpTo"
	Take             Call = "Take"
	Release          Call = "Release"
	SetRate          Call = "SetRate"
	KeepState        Call = "SetRate with KeepState"
	AvailablePermits Call = "AvailablePermits"
	Delete           Call = "Delete"
	Peek             Call = "Peek"
	Charge           Call = "Charge"
	Reset            Call = "Reset"
	Return           Call = "Return" // of the places of a call whose reply was lost, by the Client
)

// Input is a request of a caller.
type Input struct {
	Call    Call
	Permits int64 // of SetRate the rate
	// From and To are the times before and after the call, Unix microseconds. On a clock that is
	// set, Readings are what it showed meanwhile; otherwise they are nil.
	From, To int64
	Readings []int64
	// Prefetches is set if the caller's Client prefetches permits.
	Prefetches bool
	// Idle is set if no Client has a prefetch.
	Idle bool
	// Java is set if the caller is Redisson.
	Java bool
}

// Output is the answer.
type Output struct {
	Allowed   bool  // of TryAcquire; of Delete, whether the limiter existed
	Available int64 // of AvailablePermits; of TakeUpTo, the permits that it took
	Decision  rratelimiter.Decision
	Each      []rratelimiter.Decision // of Peek
	Err       error
}

// lost reports whether the call failed such that it may have taken effect or not.
func (o Output) lost() bool {
	return o.Err != nil && !errors.Is(o.Err, rratelimiter.ErrNotInitialized) &&
		!errors.Is(o.Err, rratelimiter.ErrPermitsExceedRate)
}

// Clock is the clock of a history. Its zero value is the clock of the host.
type Clock struct {
	mu       sync.Mutex
	readings []int64 // Unix microseconds, not decreasing; nil: the host's clock
}

// NewClock returns a clock that shows a time until Advance.
func NewClock(unixMicro int64) *Clock { return &Clock{readings: []int64{unixMicro}} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readings == nil {
		return time.Now()
	}
	return time.UnixMicro(c.readings[len(c.readings)-1])
}

// Advance sets the clock, unless it is set back.
func (c *Clock) Advance(unixMicro int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unixMicro > c.readings[len(c.readings)-1] {
		c.readings = append(c.readings, unixMicro)
	}
}

// Seen returns the readings so far, nil for the host's clock.
func (c *Clock) Seen() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readings[:len(c.readings):len(c.readings)]
}

// History is the calls of many callers. Its methods are safe for concurrent use.
type History struct {
	Clock *Clock
	// Late is set if a call that failed can take effect later, as in a failover. A server never
	// runs a call whose connection it has closed.
	Late  bool
	order atomic.Int64
	mu    sync.Mutex
	calls []porcupine.Operation
}

// Do makes a call and records it.
func (h *History) Do(caller int, in Input, call func(ctx context.Context, in Input) Output) Output {
	seen := h.Clock.Seen()
	in.From = h.Clock.Now().UnixMicro()
	start := h.order.Add(1)
	out := call(context.Background(), in)
	end := h.order.Add(1)
	in.To = h.Clock.Now().UnixMicro()
	if all := h.Clock.Seen(); all != nil {
		in.Readings = all[max(0, len(seen)-1):]
	}
	if out.lost() && h.Late {
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{ClientId: caller, Input: in, Output: out, Call: start, Return: end})
	return out
}

// mayReturn records what a Client may do after calls whose reply was lost: it returns their places, some time after
// the beginning of the call.
func (h *History) mayReturn() {
	for _, of := range h.Calls() {
		in, out := of.Input.(Input), of.Output.(Output) //nolint:errcheck,forcetypeassert // nothing else is there
		if out.lost() && (in.Call == TryAcquire || in.Call == Take || in.Call == TakeUpTo) {
			in.Call, in.Readings = Return, h.Clock.Seen()
			of.Input, of.Output, of.Return = in, Output{}, math.MaxInt64
			h.calls = append(h.calls, of)
		}
	}
}

// Calls returns the recorded calls.
func (h *History) Calls() []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[:len(h.calls):len(h.calls)]
}

// describe prints a call and its answer.
func describe(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) }
