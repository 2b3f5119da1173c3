package names

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
)

// The tool reads the state of policies, so it refuses one that it has no reader for.
func TestNewGiven_NewPolicy_IsRefused(t *testing.T) {
	policytest.Register(t)
	_, err := NewGiven(policytest.Novel{FixedWindow: policytest.Window})
	assert.EqualError(t, err, "rrl cannot read the keys of policytest.Novel")
}
