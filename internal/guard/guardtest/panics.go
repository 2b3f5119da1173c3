package guardtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPanics checks that each function panics with a text that begins with its key.
func TestPanics(t *testing.T, calls map[string]func()) {
	for want, call := range calls {
		func() {
			defer func() {
				text := fmt.Sprint(recover())
				assert.True(t, strings.HasPrefix(text, want), "%s: the panic is %s", want, text)
			}()
			call()
		}()
	}
}
