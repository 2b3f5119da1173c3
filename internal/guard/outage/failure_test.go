package outage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCallError_Text_NamesTheLimiterOnce(t *testing.T) {
	for _, of := range []string{"limit", "rratelimiter"} {
		cause := errors.New("EOF")
		err := error(&callError{limiter: "x", err: fmt.Errorf("%s: limiter %q: %w", of, "x", cause)})
		assert.EqualError(t, err, `rratelimiter: limiter "x": Redis: EOF`)
		assert.ErrorIs(t, err, cause)
	}
}
