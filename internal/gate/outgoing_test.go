package gate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

const deadline = 100 * time.Millisecond

// Past pauses are deleted. No pause becomes shorter.
func TestPauses_ManyNames_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pauses
		p.add("", time.Second)
		assert.Empty(t, p.byName)
		for i := range maxPauses + 1 {
			p.add(fmt.Sprint(i), time.Second)
		}
		assert.Len(t, p.byName, maxPauses)
		assert.Zero(t, p.left(fmt.Sprint(maxPauses), true))
		p.add("0", 2*time.Second)
		p.add("0", time.Second)
		assert.Equal(t, 2*time.Second, p.left("0", true))
		time.Sleep(2 * time.Second)
		p.add("another", time.Minute)
		assert.Equal(t, time.Minute, p.left("another", true), "past pauses make room")
		assert.Len(t, p.byName, 1)
		time.Sleep(time.Minute)
		assert.Zero(t, p.left("another", true))
		assert.Empty(t, p.byName)
	})
}

// outgoing returns the gate of a client whose requests a limiter limits.
func outgoing(l outage.Limiter) *Outgoing[Call[int]] {
	o := Options[Call[int]]{Settings: NewSettings(), Chooser: Func[Call[int]](All[Call[int]]("test", l))}
	o.Mode, o.Deadline = limit.Open, deadline
	return NewOutgoing("", o)
}

// hangs is a limiter whose calls last until their deadline.
type hangs struct{ inside.Sealed }

func (hangs) Name() string { return "hangs" }

func (hangs) Take(ctx context.Context, _ int64) (d rratelimiter.Decision, err error) {
	<-ctx.Done()
	return d, ctx.Err()
}

func TestPauses_BeginInAnOutage_Hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begin := outgoing(hangs{}), time.Now()
		time.AfterFunc(deadline/2, func() { g.pauses.add("hangs", time.Second) })
		assert.Equal(t, limit.FailedOpen, g.Admit(Call[int]{In: t.Context()}).Result)
		assert.GreaterOrEqual(t, time.Since(begin), deadline/2+time.Second)
		time.Sleep(2 * time.Minute) // the prober ends
	})
}

// grants is a limiter that grants all.
type grants struct{ inside.Sealed }

func (grants) Name() string { return "grants" }

func (grants) Take(context.Context, int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{Allowed: true}, nil
}

// pausable is a limiter that Redis cannot decide, with a pause in Redis.
type pausable struct {
	inside.Sealed
	takes atomic.Int64
}

func (p *pausable) Name() string { return "paused" }

func (p *pausable) Take(context.Context, int64) (rratelimiter.Decision, error) {
	if p.takes.Add(1) > 1000 {
		return rratelimiter.Decision{RetryAfter: time.Second}, nil
	}
	return rratelimiter.Decision{}, errors.New("MOVED too often")
}

func (p *pausable) Pause(context.Context, time.Duration) error { return nil }

// Another limiter of the node is answered.
func TestGate_CallsFailDuringAPause_NoneSpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(pausable)
		g := outgoing(p)
		g.Pause(p, 10*time.Second)
		synctest.Wait()
		g.guard.Ask(t.Context(), outage.Request{Limiter: grants{}, Permits: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Admit(Call[int]{In: ctx})
		assert.Less(t, p.takes.Load(), int64(10))
		time.Sleep(2 * time.Minute) // the prober ends
	})
}
