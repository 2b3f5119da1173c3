module github.com/rratelimiter/rratelimiter/benchmarks

go 1.26.0

replace (
	github.com/rratelimiter/rratelimiter => ../
	github.com/rratelimiter/rratelimiter/integration => ../integration
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/gomodule/redigo v1.9.3
	github.com/google/pprof v0.0.0-20260402051712-545e8a4df936
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/redis/rueidis/rueidislimiter v1.0.67
	github.com/rratelimiter/rratelimiter v0.0.0-00010101000000-000000000000
	github.com/rratelimiter/rratelimiter/integration v0.0.0-00010101000000-000000000000
	github.com/sethvargo/go-redisstore v0.3.0
	github.com/stretchr/testify v1.12.1
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	golang.org/x/time v0.16.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sethvargo/go-limiter v0.7.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
