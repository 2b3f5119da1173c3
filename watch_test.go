package rratelimiter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPictureIsOfOneState: what is read is compared in all that a denial follows from.
func TestAPictureIsOfOneState(t *testing.T) {
	const high = 1<<24 + 1<<16 + 1<<8 + 1
	member := func(random string, permits int64) string { return string(appendUint32([]byte(random), permits)) }
	for name, test := range map[string]struct {
		change func(b *bubble, p *picture)
		want   bool
	}{
		"the same":                {func(*bubble, *picture) {}, true},
		"another rate":            {func(b *bubble, _ *picture) { b.redis.HSet("limiter", "rate", "11") }, false},
		"another interval":        {func(b *bubble, _ *picture) { b.redis.HSet("limiter", "interval", "20000") }, false},
		"another type":            {func(b *bubble, _ *picture) { b.redis.HSet("limiter", "type", "1") }, false},
		"no configuration":        {func(b *bubble, _ *picture) { b.redis.Del("limiter") }, false},
		"another value":           {func(b *bubble, _ *picture) { b.redis.Set("{limiter}:value", "4") }, false},
		"no value":                {func(b *bubble, _ *picture) { b.redis.Del("{limiter}:value") }, false},
		"no grants":               {func(b *bubble, _ *picture) { b.redis.Del("{limiter}:permits") }, false},
		"a grant less":            {func(b *bubble, _ *picture) { b.redis.ZRem("{limiter}:permits", member("b", 1)) }, false},
		"the last grant less":     {func(b *bubble, _ *picture) { b.redis.ZRem("{limiter}:permits", member("c", 2)) }, false},
		"a grant at another time": {func(b *bubble, _ *picture) { b.redis.ZAdd("{limiter}:permits", 3001, member("c", 2)) }, false},
		"a grant that shrank": {func(b *bubble, _ *picture) {
			b.redis.ZRem("{limiter}:permits", member("c", 2))
			b.redis.ZAdd("{limiter}:permits", 3000, member("c", 1))
		}, false},
		"what is no grant":       {func(b *bubble, _ *picture) { b.redis.ZAdd("{limiter}:permits", 500, "abc") }, false},
		"the first of more":      {func(_ *bubble, p *picture) { p.returns = p.returns[:1] }, true},
		"the last cut by a page": {func(_ *bubble, p *picture) { p.returns[1].permits = 1 }, true},
		"more than there is":     {func(_ *bubble, p *picture) { p.returns[1].permits = 3 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := New(b.conn).Limiter("limiter")
				b.redis.HSet("limiter", "rate", "10", "interval", "10000", "type", "0")
				require.NoError(b, b.redis.Set("{limiter}:value", "3"))
				for member, score := range map[string]float64{member("a", high): 1000, member("b", 1): 1000, member("c", 2): 3000} {
					_, err := b.redis.ZAdd("{limiter}:permits", score, member)
					require.NoError(b, err)
				}
				p := &picture{10, 10000, 3, 5000, []returning{{6 * second, high + 1}, {8 * second, 2}}}
				test.change(b, p)
				assert.Equal(b, test.want, p.shownBy(b.conn.DoMultiCache(b.Context(), l.looks(second)...)))
			})
		})
	}
}
