package ruleset

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// TestHeaderStyles_AreAllOfHTTPLimit, each with the constant of its name.
func TestHeaderStyles_AreAllOfHTTPLimit(t *testing.T) {
	names := make(map[httplimit.HeaderStyle]string)
	for _, s := range headerStyles {
		names[s.style] = s.name
	}
	assert.Len(t, names, len(headerStyles))
	for style := range httplimit.HeaderStyle(len(headerStyles)) {
		assert.NotEmpty(t, names[style], "style %d", style)
		assert.NotPanics(t, func() { httplimit.Headers(style) })
	}
	assert.Panics(t, func() { httplimit.Headers(httplimit.HeaderStyle(len(headerStyles))) },
		"a style without a name in files")
	file := parsed(t, "rules: [{name: a, key: ip, limits: 1/s, headers: none}]")
	assert.Equal(t, headerStyle(httplimit.NoHeaders)+1, file.rules[0].settings.Headers)
}
