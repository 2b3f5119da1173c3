package guardtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Clients is the number of clients of TestManyClients, and Keys that of the keys that they share.
const (
	Clients = 100
	Keys    = 10
)

// TestManyClients runs clients at once, each with a number of requests. It checks that the clients
// of a key get its permits and no more. dial connects a client of a key; send reports whether a
// request is granted.
func TestManyClients(t *testing.T, requests, permits int, dial func(key string) (send func() bool, hangUp func())) {
	var granted, denied [Keys]atomic.Int64
	var all sync.WaitGroup
	for i := range Clients {
		all.Go(func() {
			send, hangUp := dial(fmt.Sprint(i % Keys))
			defer hangUp()
			for range requests {
				if send() {
					granted[i%Keys].Add(1)
				} else {
					denied[i%Keys].Add(1)
				}
			}
		})
	}
	all.Wait()
	for key := range Keys {
		assert.EqualValues(t, permits, granted[key].Load(), "granted to key %d", key)
		assert.EqualValues(t, Clients/Keys*requests-permits, denied[key].Load(), "denied to key %d", key)
	}
}
