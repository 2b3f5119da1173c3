package redistest

import (
	"context"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

var connectExamples = sync.OnceValues(func() (rueidis.Client, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // a settlement goes by the end of a window
	return memredis.Connect(server)
})

// Example returns a connection to an empty Redis in memory, for an Example of the documentation. All
// examples of a package share that Redis: they run one after another.
func Example() rueidis.Client {
	conn, err := connectExamples()
	if err != nil {
		panic(err)
	}
	if err := conn.Do(context.Background(), conn.B().Flushall().Build()).Error(); err != nil {
		panic(err)
	}
	return conn
}
