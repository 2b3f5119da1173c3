package engine

import "time"

// recheckPause is the time between checks whether the queues have their answers.
const recheckPause = 50 * time.Microsecond

// ClockMoved is called by a test after it has moved the clock of Settings by any time. It drops all
// denials, has all queues ask Redis at once, and returns when no waiter can be served any more.
func (g *Engine) ClockMoved() {
	if g.denials != nil {
		g.denials.forgetAll()
	}
	ids := g.registry.ids()
	for _, id := range ids {
		g.wake(id)
	}
	for _, id := range ids {
		for g.serving(id) {
			time.Sleep(recheckPause)
		}
	}
}

// serving reports whether a call for the queue of a limiter is in flight or due.
func (g *Engine) serving(id string) bool {
	e := g.registry.lockExisting(id)
	if e == nil {
		return false
	}
	defer g.registry.unlockEntry(e)
	q := e.queue
	return q != nil && (len(q.inCall) > 0 || q.waiters.first != nil && time.Until(q.next()) <= 0)
}

// forgetAll removes all denials. Calls that were sent before add none.
func (a *denials) forgetAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.versions {
		a.versions[i].Add(1)
	}
	for id := range a.byID.Range {
		a.remove(id.(string)) //nolint:errcheck,forcetypeassert // nothing else is there
	}
}
