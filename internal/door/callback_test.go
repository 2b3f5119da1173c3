package door

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// told is what a callback was told.
type told struct {
	mu   sync.Mutex
	news []string
}

func (t *told) changed(up bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, fmt.Sprint(up, " ", err))
}

// A callback that blocks holds up the request that tells it, and no other; what happens meanwhile is told behind it, in order. One
// that panics hurts the request that called it.
func TestCallbacksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heard, release := new(redis), new(told), make(chan bool)
		first := true
		g := New(Open, patience, func(up bool, err error) {
			if first {
				first = false
				<-release
			}
			heard.changed(up, err)
		})
		q := Request{Limiter: r, Permits: 1}
		r.refuses.Store(true)
		go g.Ask(t.Context(), q)
		synctest.Wait()
		r.refuses.Store(false)
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		time.Sleep(patience)
		r.refuses.Store(true)
		assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		assert.Empty(t, heard.news)
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"false connection refused", "true <nil>", "false connection refused"}, heard.news)
	})
	t.Run("that panic", func(t *testing.T) {
		r, calls := new(redis), 0
		r.refuses.Store(true)
		g := New(Open, patience, func(bool, error) { calls++; panic("a callback") })
		q := Request{Limiter: r, Permits: 1}
		assert.Panics(t, func() { g.Ask(t.Context(), q) })
		r.refuses.Store(false)
		assert.Panics(t, func() { g.Ask(t.Context(), q) })
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		assert.Equal(t, 2, calls)
	})
	t.Run("that panic while others have news", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, heard, release := new(redis), new(told), make(chan bool)
			g := New(Open, patience, func(up bool, err error) {
				heard.changed(up, err)
				if !up {
					<-release
					panic("a callback")
				}
			})
			q := Request{Limiter: r, Permits: 1}
			r.refuses.Store(true)
			go func() {
				defer func() { assert.Equal(t, "a callback", recover()) }()
				g.Ask(t.Context(), q)
			}()
			synctest.Wait()
			r.refuses.Store(false)
			assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
			close(release)
			synctest.Wait()
			assert.Equal(t, []string{"false connection refused", "true <nil>"}, heard.news)
		})
	})
}
