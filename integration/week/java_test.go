package week

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// tryAcquire is Redisson's tryAcquire(1) of an Overall limiter: nil if granted, or the milliseconds
// to wait. The arguments are the time and the member of a new grant.
var tryAcquire = rueidis.NewLuaScript(`
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'keepAliveTime')
if not config[1] then
	return redis.error_reply('RateLimiter is not initialized')
end
local rate, interval, keepAlive = tonumber(config[1]), tonumber(config[2]), tonumber(config[3] or 0)
local now, value = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[2]) or rate)
local function permits(members)
	local sum = 0
	for _, member in ipairs(members) do
		local a, b, c, d = string.byte(member, -4, -1)
		sum = sum + a + 256 * (b + 256 * (c + 256 * d))
	end
	return sum
end
local expired = permits(redis.call('ZRANGEBYSCORE', KEYS[3], 0, now - interval))
if expired > 0 then
	redis.call('ZREMRANGEBYSCORE', KEYS[3], 0, now - interval)
	value = value + expired
	if value > rate then
		value = rate - permits(redis.call('ZRANGE', KEYS[3], 0, -1))
	end
end
local wait = false
if value < 1 then
	wait = 3 + interval - (now - tonumber(redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]))
else
	redis.call('ZADD', KEYS[3], now, ARGV[2])
	value = value - 1
end
redis.call('SET', KEYS[2], value)
if keepAlive > 0 then
	for _, key in ipairs(KEYS) do
		redis.call('PEXPIRE', key, keepAlive)
	end
end
return wait`)

// java is a Java program whose threads loop on tryAcquire(1, timeout) of Redisson.
type java struct {
	conn rueidis.Client
	log  *log
}

// javaTimeout is longer than an interval, and no multiple of it, so that no thread begins by chance when permits are free.
const javaTimeout = 5 * interval / 2

// loop is a thread of the program.
func (j *java) loop(ctx context.Context) {
	for ctx.Err() == nil {
		end := time.Now().Add(javaTimeout)
		for {
			wait, granted := j.try()
			if granted {
				if ctx.Err() == nil {
					j.log.grant(ofJava)
				} else {
					j.log.grant(neither)
				}
				time.Sleep(think())
				break
			}
			if left := time.Until(end); wait > left {
				time.Sleep(left + late())
				break
			}
			time.Sleep(wait + late())
		}
	}
}

// try is tryAcquire(1). A thread asks a limiter without a rate again in 100 ms.
func (j *java) try() (wait time.Duration, granted bool) {
	member := append(make([]byte, 0, 21), 16) // then as many random bytes, and 1 permit
	member = binary.LittleEndian.AppendUint64(member, rand.Uint64())
	member = binary.LittleEndian.AppendUint64(member, rand.Uint64())
	member = binary.LittleEndian.AppendUint32(member, 1)
	reply := tryAcquire.Exec(context.Background(), j.conn,
		[]string{shared, "{" + shared + "}:value", "{" + shared + "}:permits"},
		[]string{strconv.FormatInt(time.Now().UnixMilli(), 10), string(member)})
	err := reply.Error()
	if rueidis.IsRedisNil(err) {
		return 0, true
	}
	if err != nil && strings.Contains(err.Error(), "not initialized") {
		return 100 * time.Millisecond, false
	}
	ms, err := reply.AsInt64()
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond, false
}

// late is how late a timer of Redisson is.
func late() time.Duration { return 8*time.Millisecond + rand.N(18*time.Millisecond) }

// think is the work of a caller between two calls.
func think() time.Duration { return time.Millisecond + rand.N(2*time.Millisecond) }
