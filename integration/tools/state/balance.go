package state

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// balance returns the value, which is the number of free permits, and the sum of value and grants.
var balance = rueidis.NewLuaScript(`
local free = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
local sum = free
for _, grant in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local a, b, c, d = string.byte(grant, -4, -1)
  sum = sum + a + b * 256 + c * 65536 + d * 16777216
end
return {free, sum}`)

// Audit asserts until end is called that no permit of an Overall limiter is taken twice and none is
// lost. The value is at least 0, and the value and the grants add up to the rate.
// So a window holds at most the rate. It skips what it cannot read.
func Audit(t testing.TB, client rueidis.Client, name string, rate int64) (end func()) {
	stop := make(chan struct{})
	var audit sync.WaitGroup
	audit.Go(func() {
		k, reads := KeysOf(name, ""), 0
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			case <-time.After(20 * time.Millisecond):
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			got, err := balance.Exec(ctx, client, []string{k[Value], k[Permits]}, []string{fmt.Sprint(rate)}).AsIntSlice()
			cancel()
			if err == nil {
				reads++
				assert.GreaterOrEqual(t, got[0], int64(0), "free permits")
				assert.Equal(t, rate, got[1], "free and taken permits")
			}
		}
		assert.Positive(t, reads)
	})
	return sync.OnceFunc(func() {
		close(stop)
		audit.Wait()
	})
}
