package guard

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// recorder records the calls of a callback.
type recorder struct {
	mu      sync.Mutex
	changes []string
}

func (t *recorder) changed(up bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes = append(t.changes, fmt.Sprint(up, " ", err))
}

// A callback that blocks holds up its caller and no other request. The changes that come meanwhile
// are reported after it, in order, even if it panics. A panic reaches the request that called the
// callback; that of the prober is dropped.
func TestOnRedisChange_CallbackBlocks_ChangesComeInOrder(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, reports, release := new(redis), new(recorder), make(chan bool)
			first := true
			g := New(Open, deadline, func(up bool, err error) {
				reports.changed(up, err)
				if first {
					first = false
					<-release
					if panics {
						panic("a callback")
					}
				}
			})
			q := Request{Limiter: r, Permits: 1}
			r.down.Store(true)
			go func() {
				defer func() { assert.Equal(t, panics, recover() != nil) }()
				g.Ask(t.Context(), q)
			}()
			synctest.Wait()
			r.down.Store(false)
			time.Sleep(deadline)
			synctest.Wait()
			assert.Equal(t, Acquired, g.Ask(t.Context(), q).Result)
			time.Sleep(deadline)
			r.down.Store(true)
			assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
			assert.Len(t, reports.changes, 1)
			close(release)
			synctest.Wait()
			assert.Equal(t, []string{"false connection refused", "true <nil>", "false connection refused"}, reports.changes)
		})
	}
}

func TestOnRedisChange_CallbackPanics_StateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := new(redis), 0
		r.down.Store(true)
		g := New(Open, deadline, func(bool, error) { calls++; panic("a callback") })
		q := Request{Limiter: r, Permits: 1}
		assert.PanicsWithValue(t, "a callback", func() { g.Ask(t.Context(), q) })
		assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		r.down.Store(false)
		time.Sleep(deadline)
		synctest.Wait()
		assert.Equal(t, Acquired, g.Ask(t.Context(), q).Result)
		assert.Equal(t, 2, calls)
	})
}
