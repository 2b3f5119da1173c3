package rules

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// A request came before a reload and goes on after it. The state of the new file's settings stays.
func TestMiddleware_RequestOfAnOlderFile_KeepsTheNewState(t *testing.T) {
	of := func(deadline time.Duration) (*snapshot, settings) {
		s := settings{deadline: deadline}
		return &snapshot{settings: map[settings]bool{s: true}}, s
	}
	closed := 0
	for range 2000 {
		before, _ := of(time.Second)
		now, kept := of(time.Minute)
		d := &guards[*int]{set: newSet(before), open: func(settings) *int { return new(int) }}
		var others sync.WaitGroup
		var begun, over atomic.Bool
		others.Go(func() {
			for ; !over.Load(); begun.Store(true) {
				d.now()
			}
		})
		for !begun.Load() {
			runtime.Gosched()
		}
		d.set.current.Store(now)
		d.now()
		guard := d.of(kept)
		over.Store(true)
		others.Wait()
		d.now()
		if d.of(kept) != guard {
			closed++
		}
	}
	assert.Zero(t, closed, "of 2000")
}

// Those of no rule are let go after a reload.
func TestMiddleware_Settings_AreOpenedOnUse(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		set := parsed(b,
			"rules: [{name: a, match: /a, key: ip, limits: 9/h, deadline: 1s}, {name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]")
		handler := set.Middleware(client)(&ok{})
		opened := func() (deadlines []time.Duration) {
			handler.(*middleware).opened.Range(func(s, _ any) bool {
				deadlines = append(deadlines, s.(settings).deadline)
				return true
			})
			return deadlines
		}
		status(handler, "GET /other")
		assert.Empty(b, opened())
		assert.Equal(b, good, status(handler, "GET /a"))
		assert.Equal(b, []time.Duration{time.Second}, opened())
		assert.Equal(b, good, status(handler, "GET /b"))
		assert.Len(b, opened(), 2)
		set.current.Store(parsed(b, "rules: [{name: b, match: /b, key: ip, limits: 9/h, deadline: 2s}]").file())
		status(handler, "GET /other")
		assert.Equal(b, []time.Duration{2 * time.Second}, opened())
	})
}
