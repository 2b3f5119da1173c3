package engine

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestABusyProcessIsNotYieldedTo: who yields to goroutines that compute waits for all of them, once.
func TestABusyProcessIsNotYieldedTo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c yields
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
		}
	}()
	for c.yield() { // now and then the scheduler comes back at once
	}
	stop.Store(true)
	for range hastyCalls {
		assert.False(t, c.yield(), "the calls after it leave at once")
	}
	for !c.yield() { // nobody is busy any more, except other processes now and then
	}
}

// TestCompanyByChanceIsNotCommon: among very many names now and then a call has some, and now and then none where most have.
func TestCompanyByChanceIsNotCommon(t *testing.T) {
	var c company
	for range 100 {
		c.saw(true, true)
		assert.True(t, c.last.Load())
		assert.False(t, c.common())
		c.saw(false, true)
		assert.False(t, c.last.Load())
	}
	for range 100 {
		c.saw(true, false) // which is not in a pipeline
	}
	assert.False(t, c.common())
	for range 100 {
		c.saw(false, true)
	}
	for range mostCompany {
		c.saw(true, true)
	}
	assert.True(t, c.common())
	for range 100 {
		c.saw(true, true)
	}
	for range 100 {
		c.saw(false, true)
		assert.True(t, c.common())
		c.saw(true, true)
	}
	for range mostCompany {
		c.saw(false, true)
	}
	assert.False(t, c.common())
}
