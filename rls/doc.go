// Package rls is a rate limit service for Envoy: the protocol service/ratelimit/v3, with the configuration files of
// envoyproxy/ratelimit as they are, on the limiters of package limit.
//
//	client := rratelimiter.New(redis)
//	err := rls.Serve(ctx, rls.Config{Client: client, Path: "/etc/rratelimiter/rls", GRPC: grpcListener, HTTP: httpListener})
//
// # Files
//
// A file has a domain and its descriptors, nested as those of the requests that they match:
//
//	domain: shop
//	descriptors:
//	  - key: path
//	    value: /login
//	    descriptors:
//	      - key: client
//	        rate_limit: {unit: minute, requests_per_unit: 10}
//	  - key: tenant
//	    limits:
//	      - {per: 1s, requests_per_unit: 20, policy: token_bucket, capacity: 100}
//	      - {unit: day, requests_per_unit: 100000, policy: calendar, in: Europe/Berlin}
//
// At each level the rule of key and value counts, else the first in the file whose wildcards match, else that of the key alone. The
// limit of the last one counts if it lies as deep as the descriptor has entries. All fields of the original have its meaning: unit
// (a month has 30 days, a year 365; windows begin at multiples since the Unix epoch), requests_per_unit, unlimited, name,
// replaces, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold and metadata.
//
// Beyond them a limit has per, any interval, in place of unit; policy, a policy of package limit, with aligned
// (fixed_window), cells (sliding_window), in (calendar), capacity (token_bucket and leaky_bucket), burst, warm_up
// and cold_factor (smooth); and a descriptor has limits, several at once; overdraw, for costs that are charged
// after the response; and hash_value, for values that Redis shall not hold, as API keys: the first 128 bits of
// their SHA-256 stand for them in names of limiters. A file has slot_by and http, which are told of below.
//
// A mistake is a *[ConfigError] with file, line and field. [Server.Watch] puts changes into force as they are written. What is wrong then
// leaves the rules before in force; what was taken stays taken.
//
// # Decisions
//
// The descriptors of a request decide together: all take what they ask for, or none takes anything, and one script call of Redis
// decides. So a request that is refused by one limit costs nothing of another. What is denied is not counted. Each by itself
// decide: descriptors in shadow_mode, quota_mode or with overdraw; such that give back; those with other hits than the first; more
// limits than ten; and on a Redis Cluster those in different slots. There slot_by names a key: descriptors that agree in
// its value are in one slot.
//
// A descriptor with hits_addend 0 takes nothing and is over its limit if one hit would be. Hits that are charged after the response
// have been used whether they fit or not: with overdraw they are counted although they do not fit, and what is owed comes back first.
// is_negative_hits gives back, never more than was taken.
//
// While Redis does not answer requests end with Unavailable, after [Config].Deadline, and at once where that is known; Envoy's
// failure_mode_deny says what becomes of them.
//
// # Redis
//
// The limiter of a descriptor is named "rls:" and its domain, keys and values, which are told by their SHA-256 where they are
// long. Different descriptors never share a limiter, but where share_threshold says so.
//
// # HTTP
//
// [Server.Handler] has health, /json, /rlconfig and metrics, and answers auth_request of nginx, ForwardAuth of Traefik and forward_auth
// of Caddy. The part http of a file says what their requests become:
//
//	http:
//	  trust: [10.0.0.0/8] # the proxies
//	  requests:
//	    - method: POST
//	      path: /login
//	      descriptor:
//	        - {key: path, value: /login}
//	        - {key: client, from: address}
//
// Requests are compared as package rules does it: another spelling of a method, a host or a path meets the same
// limit, or is refused. docs/envoy.md has the headers that are read, configurations of the proxies, and what
// differs from envoyproxy/ratelimit.
package rls
