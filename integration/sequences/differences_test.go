package sequences_test

import (
	"slices"

	"github.com/rratelimiter/rratelimiter/integration/calls"
	"github.com/rratelimiter/rratelimiter/integration/state"
)

// difference is a row of protocol section 7, or something that only old releases of Redisson do: where a call meets it, Go and Java may
// differ. That Go does then what the protocol says is seen before, by expected.
type difference struct {
	name  string
	until string // the first release that no longer differs, "" where all do
	met   func(m meeting) bool
}

// meeting is a call on a state.
type meeting struct {
	call   calls.Call
	before state.State
	view

	now         int64
	value       int64
	absent      bool  // there is no value
	taken, left int64 // permits of the grants in the window, and of those that have left it
	inWindow    bool  // a grant is in the window
}

func meet(call calls.Call, before state.State, now int64) meeting {
	m := meeting{call: call, before: before, now: now}
	m.view = look(&m.before)
	value, ok := m.pair.Count()
	m.value, m.absent = value, !ok
	m.taken, m.left = m.pair.Taken(now - m.interval)
	m.inWindow = slices.ContainsFunc(m.pair.Grants, func(g state.Grant) bool { return g.Score > now-m.interval })
	return m
}

func (m meeting) acquires() bool {
	return m.call.Op == calls.TryAcquire || m.call.Op == calls.TryAcquireUntil || m.call.Op == calls.Acquire
}

func (m meeting) setsRate() bool {
	return m.call.Op == calls.SetRate || m.call.Op == calls.SetRateArgs || m.call.Op == calls.UpdateRate
}

// emptyGrantLeft says whether a grant of no permits has left the window.
func (m meeting) emptyGrantLeft() bool {
	return slices.ContainsFunc(m.pair.Grants, func(g state.Grant) bool { return g.Permits == 0 && g.Score <= m.now-m.interval })
}

func (m meeting) changesType() bool { return m.there && m.call.PerClient != m.perClient }

// differences are looked through in this order.
var differences = []difference{
	{"n <= 0 is refused", "", func(m meeting) bool {
		return m.acquires() && m.call.Permits <= 0
	}},
	{"n <= 0 is refused: a grant of nothing, which Redisson made, goes", "", func(m meeting) bool {
		return m.acquires() && m.left == 0 && m.emptyGrantLeft()
	}},
	{"availablePermits reads only, 0 to rate", "", func(m meeting) bool {
		return m.call.Op == calls.AvailablePermits && (m.absent || len(m.pair.Grants) > 0 && m.left > 0 ||
			m.value < 0 || m.value+m.left > m.rate || !m.inWindow && m.value != m.rate || m.emptyGrantLeft())
	}},
	{"release takes the grants out", "", func(m meeting) bool {
		return m.call.Op == calls.Release && m.call.Permits > 0
	}},
	{"a failed trySetRate changes nothing", "", func(m meeting) bool {
		_, there := m.before.Config["keepAliveTime"]
		return m.call.Op == calls.TrySetRate && m.there && !there
	}},
	{"keepAlive 0 after a keepAlive: the TTL goes", "", func(m meeting) bool {
		return m.setsRate() && m.call.KeepAlive == 0 && m.keepAlive > 0
	}},
	{"a new type: all pairs go", "", func(m meeting) bool {
		return m.call.Op == calls.SetRate && m.changesType()
	}},
	{"a new rate where the configuration was lost: all pairs go", "", func(m meeting) bool {
		return m.setsRate() && !m.call.KeepState && !m.there
	}},
	{"setRate of a PER_CLIENT limiter leaves the client's pair (old)", "3.27.0", func(m meeting) bool {
		return m.call.Op == calls.SetRate && m.call.PerClient
	}},
	{"keepState keeps the deficit", "", func(m meeting) bool {
		pair := m.before.Overall
		if m.call.PerClient {
			pair = m.before.Client
		}
		taken, _ := pair.Taken(m.now - m.call.Interval.Milliseconds())
		return m.setsRate() && m.call.KeepState && !m.changesType() && taken > m.call.Permits
	}},
	{"the value lost, grants in the set", "", func(m meeting) bool {
		return m.acquires() && m.absent && len(m.pair.Grants) > 0
	}},
	{"the set or permits lost: heals", "", func(m meeting) bool {
		return m.acquires() && !m.absent && !m.inWindow && m.value+m.left < m.rate
	}},
	{"value above the rate counts as the rate", "", func(m meeting) bool {
		return m.acquires() && !m.absent && m.value > m.rate
	}},
	{"value and what returns are capped at the rate", "", func(m meeting) bool {
		return m.acquires() && !m.absent && m.left > 0 && m.value+m.left > m.rate
	}},
	{"n > 4294967295 is several members", "", func(m meeting) bool {
		return m.acquires() && m.call.Permits > 1<<32-1
	}},
	{"the state does not live as long as the configuration (old)", "3.17.3", func(m meeting) bool {
		return m.acquires() && m.before.ConfigTTL >= 0
	}},
	{"the client's own pair expires by itself", "", func(m meeting) bool {
		v := m.view
		perClient, lasting := v.perClient, m.before.ConfigTTL >= 0 || v.keepAlive > 0
		if m.setsRate() {
			return m.call.KeepState && m.call.PerClient && m.call.KeepAlive == 0 && m.before.ConfigTTL < 0
		}
		return m.acquires() && perClient && !lasting
	}},
}

// recognise names the difference that a call met, or "".
func recognise(m meeting, version string) string {
	for _, d := range differences {
		if (d.until == "" || !calls.AtLeast(version, d.until)) && d.met(m) {
			return d.name
		}
	}
	return ""
}
