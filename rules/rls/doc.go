// Package rls is a rate limit service for Envoy. It implements the protocol service/ratelimit/v3
// with the limiters of package limit, and reads the configuration files of envoyproxy/ratelimit
// unchanged.
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
// At each level, a rule with the entry's key and value takes precedence. The first rule of the file
// whose wildcards match is next, and the rule with the key alone is last. A limit applies only to a
// descriptor with as many entries as its depth. The fields of envoyproxy/ratelimit keep their
// meaning. A month has 30 days and a year 365. Windows begin at multiples since the Unix epoch. The
// [documentation] lists the fields that this package adds.
//
// An error has the file, the line and the field of each mistake. [Server.Watch] puts changes
// into force. If a new file has an error, the old rules stay in force. Permits stay taken over a
// change.
//
// # Decisions
//
// One script call of Redis decides the descriptors of a request atomically: all take their permits,
// or none does. So a request that one limit denies takes no permits of another. Descriptors of one
// limiter, such as two equal ones, are decided with the sum of their hits.
//
// Descriptors with different hits, and the limits beyond ten, need several calls. They follow one
// another, and a denial ends them: the calls before it return what they have taken, and the
// descriptors behind it have the code OK without current_limit.
//
// Some descriptors are decided separately:
//
//   - descriptors in shadow_mode or quota_mode
//   - descriptors that take permits with overdraw, or that release permits
//   - on a Redis Cluster, descriptors in different slots
//
// In a cluster, slot_by names a key: descriptors with the same value of that key share a slot.
//
// A descriptor with hits_addend 0 takes no permits, and is over its limit if one hit would be. Hits
// that are charged after the response have been used in any case. With overdraw they are counted
// even over the limit, and later permits repay them first. is_negative_hits releases permits, at
// most those taken.
//
// While Redis does not answer, requests end with Unavailable: after [Config].Deadline, or at once
// during a detected outage. Envoy's failure_mode_deny decides about them.
//
// # Redis
//
// The name of a descriptor's limiter is "rls:" with the domain, keys and values. Long ones are
// replaced by their SHA-256. Different descriptors share a limiter only by share_threshold.
//
// # HTTP
//
// [Server.Handler] serves health, /json, /rlconfig and metrics. For nginx, Traefik and Caddy, see
// ForwardAuth of package rules. The [documentation] has the differences to envoyproxy/ratelimit.
//
// [documentation]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/envoy.md
package rls
