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
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

const deadline = 100 * time.Millisecond

// Past pauses are deleted. No pause becomes shorter.
func TestPauses_ManyNames_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pauses
		left := func(name string) time.Duration {
			rest, _ := p.left(name)
			return rest
		}
		p.add("", time.Second)
		assert.Empty(t, p.entries)
		for i := range maxNames + 1 {
			p.add(fmt.Sprint(i), time.Second)
		}
		assert.Len(t, p.entries, maxNames)
		assert.Zero(t, left(fmt.Sprint(maxNames)))
		p.add("0", 2*time.Second)
		p.add("0", time.Second)
		assert.Equal(t, 2*time.Second, left("0"))
		time.Sleep(2 * time.Second)
		p.add("another", time.Minute)
		assert.Equal(t, time.Minute, left("another"), "past pauses make room")
		assert.Len(t, p.entries, 1)
		time.Sleep(time.Minute)
		assert.Zero(t, left("another"))
		assert.Empty(t, p.entries)
	})
}

// TestQuotas_ManyNames_AreBounded: names that are no longer used make room.
func TestQuotas_ManyNames_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quotas
		for i := range maxNames {
			assert.NotNil(t, q.entryLocked(fmt.Sprint(i)))
		}
		assert.Nil(t, q.entryLocked("another"))
		time.Sleep(quotaFor - time.Second)
		kept := q.entryLocked("0")
		time.Sleep(2 * time.Second)
		assert.NotNil(t, q.entryLocked("another"))
		assert.Same(t, kept, q.entryLocked("0"))
		assert.Len(t, q.entries, 2)
	})
}

// outgoing returns the gate of a client whose requests a limiter limits.
func outgoing(l limit.Joinable) *Outgoing[Call[int]] {
	o := Options[Call[int]]{Settings: NewSettings(), Chooser: Func[Call[int]](All[Call[int]]("test", l))}
	o.Mode, o.Deadline = limit.Open, deadline
	return NewOutgoing("", o)
}

func TestPauses_BeginInAnOutage_Hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fake.Limiter{Called: "hangs", OnProbe: fake.Hang}
		l.OnTry = func(ctx context.Context, _ engine.Ask, _ *engine.Result) error { return fake.Hang(ctx) }
		g, begin := outgoing(l), time.Now()
		time.AfterFunc(deadline/2, func() { g.pauses.add("hangs", time.Second) })
		assert.Equal(t, limit.FailedOpen, g.Admit(Call[int]{In: t.Context()}).Answer.Result)
		assert.GreaterOrEqual(t, time.Since(begin), deadline/2+time.Second)
		time.Sleep(2 * time.Minute) // the prober ends
	})
}

// pausable is a limiter that Redis cannot decide, with a pause in Redis.
type pausable struct {
	*fake.Limiter
	calls atomic.Int64
}

func newPausable() *pausable {
	p := &pausable{Limiter: &fake.Limiter{Called: "paused"}}
	p.OnTry = fake.Decide(func(context.Context) (rratelimiter.Decision, error) {
		if p.calls.Add(1) > 1000 {
			return rratelimiter.Decision{RetryAfter: time.Second}, nil
		}
		return rratelimiter.Decision{}, errors.New("MOVED too often")
	})
	return p
}

func (p *pausable) Pause(context.Context, time.Duration) error { return nil }

// Another limiter of the node is answered.
func TestGate_CallsFailDuringAPause_NoneSpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPausable()
		g := outgoing(p)
		g.Pause(p, 10*time.Second)
		synctest.Wait()
		g.guard.Decide(t.Context(), outage.Demand{Limiter: &fake.Limiter{Beside: p.Limiter}, Permits: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Admit(Call[int]{In: ctx})
		assert.Less(t, p.calls.Load(), int64(10))
		time.Sleep(2 * time.Minute) // the prober ends
	})
}
