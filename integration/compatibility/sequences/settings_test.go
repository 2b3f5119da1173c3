package sequences_test

import (
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

func (m *model) setFields(c calls.Call) {
	if m.Config == nil {
		m.Config, m.ConfigTTL = map[string]string{}, state.Forever
	}
	m.Config["rate"] = strconv.FormatInt(c.Permits, 10)
	m.Config["interval"] = strconv.FormatInt(c.Interval.Milliseconds(), 10)
	m.Config["type"] = map[bool]string{false: "0", true: "1"}[c.PerClient]
	m.Config["keepAliveTime"] = strconv.FormatInt(c.KeepAlive.Milliseconds(), 10)
}

func (m *model) trySetRate(c calls.Call) calls.Reply {
	if m.Config["type"] != "" {
		if _, there := m.Config["keepAliveTime"]; !there && !m.applies(failedTrySetRate) {
			// Redisson writes each missing field.
			m.Config["keepAliveTime"] = strconv.FormatInt(c.KeepAlive.Milliseconds(), 10)
		}
		return "false"
	}
	m.setFields(c)
	if c.KeepAlive > 0 {
		m.ConfigTTL = c.KeepAlive.Milliseconds()
	}
	return "true"
}

func (m *model) setRate(c calls.Call) {
	old, hadType := viewOf(m.State), m.Config["type"] != ""
	m.setFields(c)
	v := viewOf(m.State)
	if c.KeepAlive > 0 {
		m.ConfigTTL = c.KeepAlive.Milliseconds()
	} else if old.keepAlive > 0 && m.applies(keepAliveRemoved) {
		m.ConfigTTL = state.Forever
		v.pair.ValueTTL, v.pair.GrantsTTL = min(v.pair.ValueTTL, state.Forever), min(v.pair.GrantsTTL, state.Forever)
	}
	switch changed := hadType && old.perClient != v.perClient; {
	case changed && (m.applies(typeChanged) || c.Op != calls.SetRate), !hadType && !c.KeepState && m.applies(configLost):
		m.Overall, m.Client = none, none
	case !c.KeepState:
		if !m.applies(oldClientState) {
			v.pair = &m.Overall
		}
		*v.pair = none
	default:
		taken, _ := v.pair.Taken(m.now - v.interval)
		v.keep(m.now - v.interval)
		left := v.rate - taken
		if !m.applies(deficitKept) {
			left = max(0, left)
		}
		v.set(left)
		m.live(v)
	}
}

// live sets the TTLs, also those of per-client state.
func (m *model) live(v view) {
	ttl := m.ConfigTTL
	if v.keepAlive > 0 {
		ttl = v.keepAlive
		m.ConfigTTL = ttl
	}
	if ttl < 0 && m.applies(strayTTLRemoved) && v.pair.GrantsTTL >= 0 {
		v.pair.GrantsTTL = state.Forever
		v.pair.ValueTTL = min(v.pair.ValueTTL, state.Forever)
	}
	if ttl < 0 {
		return
	}
	if v.perClient {
		ttl += m.slack(v)
	}
	if v.pair.Value != nil {
		v.pair.ValueTTL = ttl
	}
	if v.pair.Grants != nil {
		v.pair.GrantsTTL = ttl
	}
}

// slack returns by how much per-client state expires later than its limiter.
func (m *model) slack(v view) int64 {
	if !m.applies(clientTTLExtended) {
		return 0
	}
	return v.interval + (24 * time.Hour).Milliseconds()
}

// extend keeps state from expiring before its configuration.
func (m *model) extend(s *state.State, slack int64) {
	if s.ConfigTTL == state.NoKey || !m.applies(stateTTLExtended) {
		return
	}
	longer := func(ttl *int64, slack int64) {
		switch {
		case *ttl < 0:
		case s.ConfigTTL < 0:
			*ttl = state.Forever
		default:
			*ttl = max(*ttl, s.ConfigTTL+slack)
		}
	}
	longer(&s.Overall.ValueTTL, 0)
	longer(&s.Overall.GrantsTTL, 0)
	longer(&s.Client.ValueTTL, slack)
	longer(&s.Client.GrantsTTL, slack)
}

// move renames or copies. Redisson does so only with the configuration.
func (m *model) move(op calls.Op) calls.Reply {
	copies := op == calls.Copy || op == calls.CopyAndReplace
	switch {
	case m.Config == nil && copies && !m.applies(copyOfMissing):
		return "false"
	case m.Config == nil:
		return calls.NoLimiter
	}
	if m.other.Config != nil && (op == calls.RenameNX || op == calls.Copy) {
		return "false"
	}
	source, whole := clone(*m.State), m.applies(renameMovesState)
	if copies {
		whole = m.applies(copyCopiesState)
	}
	slack := m.slack(viewOf(&source))
	m.other.Config, m.other.ConfigTTL = source.Config, source.ConfigTTL
	if whole {
		m.other.Overall, m.other.Client = source.Overall, source.Client
		m.extend(m.other, slack)
	}
	if !copies {
		m.Config, m.ConfigTTL = nil, state.NoKey
		if whole {
			m.Overall, m.Client = none, none
		}
	}
	if op == calls.Rename {
		return calls.Done
	}
	return "true"
}

// eachTTL changes the TTLs of all existing keys, and reports whether one changed. Per-client keys
// have slack. If the change compares times, those of the configuration decide.
func (m *model) eachTTL(compares bool, change func(ttl, slack int64) int64) calls.Reply {
	var slack int64
	if m.Config != nil {
		slack = m.slack(viewOf(m.State))
	}
	changed, counts := false, true
	each := func(ttl *int64, slack int64) {
		if *ttl == state.NoKey {
			return
		}
		next := change(*ttl, slack)
		changed = changed || counts && next != *ttl
		*ttl = next
	}
	each(&m.ConfigTTL, 0)
	each(&m.Overall.ValueTTL, 0)
	each(&m.Overall.GrantsTTL, 0)
	counts = !compares || m.Config == nil || !m.applies(clientTTLExtended)
	each(&m.Client.ValueTTL, slack)
	each(&m.Client.GrantsTTL, slack)
	m.extend(m.State, slack)
	return truth(changed)
}

func (m *model) expire(op calls.Op, expiry time.Duration) calls.Reply {
	compares := op == calls.ExpireIfGreater || op == calls.ExpireIfLess
	return m.eachTTL(compares, func(ttl, slack int64) int64 {
		ms, set := expiry.Milliseconds()+slack, false
		switch op {
		case calls.Expire:
			set = true
		case calls.ExpireIfSet:
			set = ttl >= 0
		case calls.ExpireIfNotSet:
			set = ttl < 0
		case calls.ExpireIfGreater:
			set = ttl >= 0 && ms > ttl
		case calls.ExpireIfLess:
			set = ttl < 0 || ms < ttl
		}
		if set {
			return ms
		}
		return ttl
	})
}
