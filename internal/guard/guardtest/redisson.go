package guardtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

var perHour = rratelimiter.Rate{Permits: 2, Interval: time.Hour, KeepAlive: 2 * time.Hour}

// statuses sends requests of a key.
func (s Server) statuses(f *redistest.Fixture, key string, n int) (statuses []int) {
	for range n {
		statuses = append(statuses, s(f.Context(), key).Status)
	}
	return statuses
}

func testEachRedisson(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := m.Server(Settings{Client: client, Initial: perHour})
		long := "a%b" + string(make([]byte, 200)) // nothing is escaped or shortened
		for _, key := range []string{"one", "two", long} {
			assert.Equal(t, []int{200, 200, 429}, server.statuses(f, key, 3), "%q", key)
			rate, err := client.Limiter("api:" + key).Config(t.Context())
			require.NoError(t, err, "%q", key)
			assert.Equal(t, perHour, rate, "%q", key)
		}
		for _, key := range []string{"", strings.Repeat("k", 8<<10+1)} { // Redis would keep a name of any length
			assert.Equal(t, 400, server(t.Context(), key).Status, "%d bytes", len(key))
		}
	})
}

func testRateIsGone(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := m.Server(Settings{Client: client, Initial: perHour})
		for _, lose := range []func(){
			func() { time.Sleep(perHour.KeepAlive + time.Millisecond) },
			f.Redis.FlushAll,
		} {
			assert.Equal(t, []int{200, 200, 429}, server.statuses(f, "one", 3))
			lose()
			require.False(t, f.Redis.Exists("api:one"))
		}
		assert.Equal(t, []int{200, 200, 429}, server.statuses(f, "one", 3))
	})
}

func testRateOfJava(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		java := rratelimiter.New(f.Conn)
		_, err := java.Limiter("api:one").TrySetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Hour})
		require.NoError(t, err)
		server := m.Server(Settings{Client: client, Initial: perHour})
		assert.Equal(t, []int{200, 429}, server.statuses(f, "one", 2))
		assert.Equal(t, []int{200, 200, 429}, server.statuses(f, "two", 3))
	})
}
