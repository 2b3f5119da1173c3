package httplimit

import "github.com/rratelimiter/rratelimiter/internal/guard/gate"

// FollowQuota has a [Transport] follow the provider's own count. Other programs may use the same quota. A
// response that says how much of it is left drains the limiter to that number, if it has more:
// [limit.Limiter.Drain]. It never adds permits. All processes that share the limiter slow down, and not only
// after a refusal.
//
// It reads the fields that [QuotaReset] and [RateLimit] read: X-RateLimit-Remaining, for instance, and those of
// a kind, as Anthropic-RateLimit-Tokens-Remaining or X-RateLimit-Remaining-Minute. Without kinds, those count
// that have none or the kind "requests", and each policy of a field RateLimit. With kinds, such as "tokens",
// "input-tokens", "minute" or the name of a policy, only theirs do. Of several numbers the least counts.
//
// The Transport makes a call to Redis only if a number is below what its last grant left. Nothing waits for
// it. A response to a request that was granted before one whose response has counted is ignored. So is one
// that comes when a window that its request counts in is over. Permits that came free since the request was
// granted are added to its number.
//
// Use a FixedWindow, a Calendar or a bucket as the provider does, or a SlidingLog: a drained permit returns
// when a granted one would.
func FollowQuota(kinds ...string) Option { return common(gate.FollowQuota(kinds)) }
