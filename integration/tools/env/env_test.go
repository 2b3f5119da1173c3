package env

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEnv_VariableIsSet_ReturnsItsValue(t *testing.T) {
	assert.EqualValues(t, 7, Number("RRATELIMITER_ENV_TEST", 7))
	t.Setenv("RRATELIMITER_ENV_TEST", "12")
	assert.EqualValues(t, 12, Number("RRATELIMITER_ENV_TEST", 7))
	assert.EqualValues(t, 12, Seed("RRATELIMITER_ENV_TEST", 7))
	assert.Panics(t, func() { Duration("RRATELIMITER_ENV_TEST", time.Second) })
	t.Setenv("RRATELIMITER_ENV_TEST", "3s")
	assert.Equal(t, 3*time.Second, Duration("RRATELIMITER_ENV_TEST", time.Second))
	assert.Panics(t, func() { Number("RRATELIMITER_ENV_TEST", 7) })
}
