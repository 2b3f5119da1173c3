package limit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestNamed_Limiter_SharesItsState: the name changes no key and no decision. Policies returns it.
func TestNamed_Limiter_SharesItsState(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn)
		hour := limit.FixedWindow{Permits: 3, Interval: time.Hour}
		pause := limit.Pause{Most: time.Minute}
		plain := limit.New(client, "x", hour, pause)
		named := limit.New(client, "x", limit.Named("quota", hour), limit.Named("stop", pause))
		keyed := limit.NewKeyed(client, "x", limit.Named("again", limit.Named("other", hour))).Limiter("y")
		for i, l := range []*limit.Limiter{plain, named, plain, named} {
			assert.Equal(t, i < 3, redistest.Result(t, l.TryAcquire, 1))
		}
		require.NoError(t, named.Pause(t.Context(), time.Second))
		assert.Equal(t, []limit.Policy{hour, pause}, plain.Policies())
		assert.Equal(t, []limit.Policy{limit.Named("quota", hour), limit.Named("stop", pause)}, named.Policies())
		assert.Equal(t, []limit.Policy{limit.Named("again", hour)}, keyed.Policies())
		joined := limit.Join(client.Limiter("r"), keyed)
		assert.Equal(t, []limit.Policy{nil, limit.Named("again", hour)}, joined.Policies())
		assert.Empty(t, limit.New(client, "", hour).Policies())
	})
}

func TestNamed_InvalidArgument_IsRefused(t *testing.T) {
	hour := limit.FixedWindow{Permits: 3, Interval: time.Hour}
	for _, name := range []string{"", "é", "a\n"} {
		assert.Panics(t, func() { limit.Named(name, hour) }, "%q", name)
	}
	assert.NoError(t, limit.Validate(limit.Named("quota", hour)))
	for _, p := range []limit.Policy{nil, limit.FixedWindow{}, &hour} {
		assert.ErrorIs(t, limit.Validate(limit.Named("quota", p)), rratelimiter.ErrInvalidRate)
	}
	assert.ErrorIs(t, limit.Validate(hour, limit.Named("quota", hour)), rratelimiter.ErrInvalidRate)
}
