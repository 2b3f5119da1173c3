package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFreshness_LimiterChanged_AllAreChecked: by the reply to the next call.
func TestFreshness_LimiterChanged_AllAreChecked(t *testing.T) {
	var f freshness
	f.changed = true
	f.call()
	assert.True(t, f.recheck)
	assert.False(t, f.changed)
	f.call()
	assert.False(t, f.recheck)
}
