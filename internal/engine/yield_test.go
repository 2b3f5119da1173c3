package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestYields_ProcessIsBusy_CallsDoNotYield: one call waits for all goroutines that compute, and the
// calls after it do not.
func TestYields_ProcessIsBusy_CallsDoNotYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c yields
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
		}
	}()
	for c.yield() { // sometimes the scheduler returns at once
	}
	stop.Store(true)
	for range busyCalls {
		assert.False(t, c.yield(), "the calls after it leave at once")
	}
	for !c.yield() { // no caller is busy, except other processes now and then
	}
}
