// Package policymodel has each policy of package limit in plain Go. The models are specifications:
// tests compare the answers of the scripts with theirs. They need no Redis and read no clock.
package policymodel

// Model is the state of one limiter with one policy. Times are Unix microseconds. A time before
// the last one is treated as the policy documents. A Model is not safe for concurrent use.
type Model interface {
	// Charge takes permits, whether they are free or not.
	Charge(now, permits int64)
	// Release returns permits, at most those that are taken.
	Release(now, permits int64)
	// Free returns the free permits, below 0 if more are taken than exist.
	Free(now int64) int64
	// Wait returns the microseconds until permits are free.
	Wait(now, permits int64) int64
	// Reset returns the microseconds until no permit is taken.
	Reset(now int64) int64
	// Clone returns a copy. Calls of one do not change the other.
	Clone() Model
}

// Take takes permits if they are free, and reports whether they were. They are at most as many as
// the policy can hold.
func Take(m Model, now, permits int64) bool {
	free := m.Wait(now, permits) == 0
	if free {
		m.Charge(now, permits)
	}
	return free
}
