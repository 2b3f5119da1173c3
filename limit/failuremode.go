package limit

import "fmt"

// FailureMode decides requests while Redis cannot: [Closed], [Open] or [Local]. The zero value is
// Closed. Packages httplimit, grpclimit and fallback take one with their option OnFailure. The page
// [Failure modes] defines an outage.
//
// [Failure modes]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/failures.md
type FailureMode float64

// The modes besides Local.
const (
	Closed FailureMode = 0  // refuses the request, so that a client gains nothing by making Redis fail
	Open   FailureMode = -1 // lets the request pass
)

// Local lets this process grant a share of each limit while Redis fails: a tenth if ten processes
// share the limit. Each key has a bucket of its own.
//
//   - A window never holds more than the share of its permits in any interval. Half of the share
//     can be granted at once.
//   - A bucket has the share of its Capacity and Refill.
//   - A request that costs more than can be granted at once is Closed. If the share is less than
//     one permit, all requests are.
//   - Permits taken in Redis do not count here, and permits taken here do not count in Redis. If
//     Redis fails again soon, the local permits still count.
//   - Each limiter of a [Join] has the bucket of its own name. A request passes if all have its
//     permits; else none is taken.
//   - At most 131,072 buckets exist at once, one for each policy of a key, in some 24 MB. Requests
//     that need more are Closed.
//
// Local needs the names and the policies of all limiters. It takes those with which a limiter was
// opened, by [New] or as [github.com/rratelimiter/rratelimiter.InitialRate]. Without them, or if the
// key is unknown, requests are Closed.
//
// Local panics if the share is not above 0 and at most 1.
func Local(share float64) FailureMode {
	if !(share > 0 && share <= 1) {
		panic(fmt.Sprintf("limit: Local: the share is out of range: %v: pass one above 0 and at most 1", share))
	}
	return FailureMode(share)
}
