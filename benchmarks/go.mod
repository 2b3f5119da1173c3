module github.com/rratelimiter/rratelimiter/benchmarks

go 1.25.0

replace (
	github.com/rratelimiter/rratelimiter => ../
	github.com/rratelimiter/rratelimiter/integration => ../integration
)

require (
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/gomodule/redigo v1.8.9
	github.com/redis/go-redis/v9 v9.0.5
	github.com/redis/rueidis v1.0.79
	github.com/redis/rueidis/rueidislimiter v1.0.67
	github.com/rratelimiter/rratelimiter v0.0.0-00010101000000-000000000000
	github.com/rratelimiter/rratelimiter/integration v0.0.0-00010101000000-000000000000
	github.com/sethvargo/go-redisstore v0.3.0
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	golang.org/x/time v0.15.0
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sethvargo/go-limiter v0.6.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
