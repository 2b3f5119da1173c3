package rratelimiter

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestABusyProcessIsNotGivenWayTo: who gives way to goroutines that compute waits for all of them, once.
func TestABusyProcessIsNotGivenWayTo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c courtesy
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
		}
	}()
	for c.giveWay() { // now and then the scheduler comes back at once
	}
	stop.Store(true)
	for range hastyCalls {
		assert.False(t, c.giveWay(), "the calls after it leave at once")
	}
	for !c.giveWay() { // nobody is busy any more, except other processes now and then
	}
}
