package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestYields_ProcessIsBusy_CallsDoNotYield: one call waits for all goroutines that compute, and the
// calls after it do not. A call that others have joined meanwhile does not count.
func TestYields_ProcessIsBusy_CallsDoNotYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c yields
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
		}
	}()
	for c.yield(func() int { return 2 }) { // sometimes the scheduler returns at once
	}
	assert.Zero(t, c.skips.Load())
	for c.yield(nil) {
	}
	stop.Store(true)
	for range skippedYields {
		assert.False(t, c.yield(nil), "the calls after it leave at once")
	}
	for !c.yield(nil) { // no caller is busy, except other processes now and then
	}
}
