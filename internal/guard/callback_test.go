package guard

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// told records the calls of a callback.
type told struct {
	mu   sync.Mutex
	news []string
}

func (t *told) changed(up bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, fmt.Sprint(up, " ", err))
}

// A callback that blocks holds up its caller and no other request. The changes that come meanwhile are reported after it, in order. A
// panic reaches the request that called the callback; that of the prober is dropped.
func TestOnStoreChange_CallbackBlocks_ChangesComeInOrder(t *testing.T) {
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
		time.Sleep(patience)
		synctest.Wait()
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		time.Sleep(patience)
		r.refuses.Store(true)
		assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		assert.Empty(t, heard.news)
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"false connection refused", "true <nil>", "false connection refused"}, heard.news)
	})
}

func TestOnStoreChange_CallbackPanics_StateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := new(redis), 0
		r.refuses.Store(true)
		g := New(Open, patience, func(bool, error) { calls++; panic("a callback") })
		q := Request{Limiter: r, Permits: 1}
		assert.PanicsWithValue(t, "a callback", func() { g.Ask(t.Context(), q) })
		assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		r.refuses.Store(false)
		time.Sleep(patience)
		synctest.Wait()
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		assert.Equal(t, 2, calls)
	})
}

func TestOnStoreChange_CallbackPanics_QueuedChangesAreReported(t *testing.T) {
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
		time.Sleep(patience)
		synctest.Wait()
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, heard.news)
	})
}
