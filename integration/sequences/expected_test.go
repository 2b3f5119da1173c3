package sequences_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/calls"
	"github.com/rratelimiter/rratelimiter/integration/state"
)

// expected is what a Go call must answer and leave, from the protocol with its section 7, written down without the library's code.
func expected(before state.State, c calls.Call, at time.Time) (calls.Reply, state.State) {
	m := &model{State: clone(before), now: at.UnixMilli()}
	return m.do(c), m.State
}

// view is a limiter as a call finds it: the numbers of its configuration, and the pair that its type picks.
type view struct {
	there     bool // initialised
	rate      int64
	interval  int64
	keepAlive int64
	perClient bool
	pair      *state.Pair
}

func look(s *state.State) view {
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(s.Config[field], 10, 64)
		return n
	}
	v := view{rate: number("rate"), interval: number("interval"), keepAlive: number("keepAliveTime"), perClient: s.Config["type"] == "1"}
	v.there = s.Config["rate"] != "" && s.Config["interval"] != "" && s.Config["type"] != ""
	v.pair = &s.Overall
	if v.perClient {
		v.pair = &s.Client
	}
	return v
}

type model struct {
	state.State
	now int64
}

func (m *model) do(c calls.Call) calls.Reply {
	switch c.Op {
	case calls.TryAcquire, calls.TryAcquireUntil:
		return m.acquire(c.Permits, "true")
	case calls.Acquire:
		return m.acquire(c.Permits, calls.Done)
	case calls.AvailablePermits:
		return m.available()
	case calls.Release:
		return m.release(c.Permits)
	case calls.TrySetRate:
		if m.Config["type"] != "" {
			return "false"
		}
		m.setFields(c)
		if c.KeepAlive > 0 {
			m.ConfigTTL = c.KeepAlive.Milliseconds()
		}
		return "true"
	case calls.SetRate, calls.SetRateArgs:
		m.setRate(c)
		return calls.Done
	case calls.UpdateRate:
		if m.Config == nil {
			return "false"
		}
		m.setRate(c)
		return "true"
	case calls.GetConfig:
		if m.Config == nil {
			return calls.NotInitialized
		}
		v := look(&m.State)
		kind := map[bool]string{false: "OVERALL", true: "PER_CLIENT"}[v.perClient]
		return calls.Reply(fmt.Sprintf("%s %d/%v", kind, v.rate, time.Duration(v.interval)*time.Millisecond))
	case calls.Exists:
		return truth(m.Config != nil)
	case calls.Delete:
		there := m.Config != nil
		for _, p := range []*state.Pair{&m.Overall, &m.Client} {
			there = there || p.Value != nil || p.Grants != nil
		}
		m.State = state.State{ConfigTTL: state.NoKey, Overall: none, Client: none, Read: m.Read}
		return truth(there)
	case calls.ClearExpire:
		return m.eachTTL(func(ttl int64) int64 { return state.Forever })
	case calls.Expire, calls.ExpireIfSet, calls.ExpireIfNotSet, calls.ExpireIfGreater, calls.ExpireIfLess:
		return m.expire(c)
	}
	panic(fmt.Sprintf("nothing is expected of %v", c))
}

var none = state.Pair{ValueTTL: state.NoKey, GrantsTTL: state.NoKey}

func truth(yes bool) calls.Reply { return calls.Reply(strconv.FormatBool(yes)) }

// count gives back what has left the window, and gives the number of free permits.
func (m *model) count(v view) int64 {
	taken, left := v.pair.Taken(m.now - v.interval)
	v.pair.Grants = slices.DeleteFunc(v.pair.Grants, func(g state.Grant) bool { return g.Score <= m.now-v.interval })
	if len(v.pair.Grants) == 0 {
		v.pair.Grants, v.pair.GrantsTTL = nil, state.NoKey
		return v.rate
	}
	value, ok := v.pair.Count()
	if !ok {
		return v.rate - taken
	}
	return min(v.rate, value+left)
}

func (v view) store(value int64) {
	text := strconv.FormatInt(value, 10)
	v.pair.ValueTTL = state.Forever
	v.pair.Value = &text
}

func (m *model) acquire(n int64, granted calls.Reply) calls.Reply {
	v := look(&m.State)
	switch {
	case n <= 0:
		return calls.Refused
	case !v.there:
		return calls.NotInitialized
	case n > v.rate:
		return calls.AboveRate
	}
	free, reply := m.count(v), calls.Reply("false")
	if n <= free {
		free, reply = free-n, granted
		if v.pair.Grants == nil {
			v.pair.GrantsTTL = state.Forever
		}
		for ; n > 0; n -= min(n, 1<<32-1) {
			v.pair.Grants = append(v.pair.Grants, state.Grant{Score: m.now, Layout: state.ByteLayout, Permits: min(n, 1<<32-1)})
		}
	}
	v.store(free)
	m.live(v)
	return reply
}

func (m *model) available() calls.Reply {
	v := look(&m.State)
	if !v.there {
		return calls.NotInitialized
	}
	taken, left := v.pair.Taken(m.now - v.interval)
	free := v.rate
	if slices.ContainsFunc(v.pair.Grants, func(g state.Grant) bool { return g.Score > m.now-v.interval }) {
		value, ok := v.pair.Count()
		free = value + left
		if !ok {
			free = v.rate - taken
		}
	}
	return calls.Reply(strconv.FormatInt(max(0, min(v.rate, free)), 10))
}

func (m *model) release(n int64) calls.Reply {
	v := look(&m.State)
	switch {
	case n < 0:
		return calls.Refused
	case n == 0:
		return calls.Done
	case !v.there:
		return calls.NotInitialized
	}
	free := m.count(v)
	if free+n >= v.rate {
		v.pair.Grants, v.pair.GrantsTTL = nil, state.NoKey
		v.store(v.rate)
	} else {
		v.store(free + n)
		for n > 0 && len(v.pair.Grants) > 0 {
			oldest := &v.pair.Grants[0]
			cut := min(n, oldest.Permits)
			n, oldest.Permits = n-cut, oldest.Permits-cut
			if oldest.Permits == 0 {
				v.pair.Grants = v.pair.Grants[1:]
			}
		}
		if len(v.pair.Grants) == 0 {
			v.pair.Grants, v.pair.GrantsTTL = nil, state.NoKey
		}
	}
	m.live(v)
	return calls.Done
}

func (m *model) setFields(c calls.Call) {
	if m.Config == nil {
		m.Config, m.ConfigTTL = map[string]string{}, state.Forever
	}
	m.Config["rate"] = strconv.FormatInt(c.Permits, 10)
	m.Config["interval"] = strconv.FormatInt(c.Interval.Milliseconds(), 10)
	m.Config["type"] = map[bool]string{false: "0", true: "1"}[c.PerClient]
	m.Config["keepAliveTime"] = strconv.FormatInt(c.KeepAlive.Milliseconds(), 10)
}

func (m *model) setRate(c calls.Call) {
	old := look(&m.State)
	hadType := m.Config["type"] != ""
	sameType := hadType && old.perClient == c.PerClient || !hadType && c.KeepState // lost is not changed
	m.setFields(c)
	v := look(&m.State)
	if c.KeepAlive > 0 {
		m.ConfigTTL = c.KeepAlive.Milliseconds()
	} else if old.keepAlive > 0 {
		m.ConfigTTL = state.Forever
		if v.pair.Value != nil {
			v.pair.ValueTTL = state.Forever
		}
		if v.pair.Grants != nil {
			v.pair.GrantsTTL = state.Forever
		}
	}
	switch {
	case !sameType:
		m.Overall, m.Client = none, none
	case !c.KeepState:
		*v.pair = none
	default:
		taken, _ := v.pair.Taken(m.now - v.interval)
		m.count(v)
		v.store(v.rate - taken)
		m.live(v)
	}
}

// live is the expiry of section 6, and for a client's own pair that of section 7.
func (m *model) live(v view) {
	ttl := m.ConfigTTL
	switch {
	case v.keepAlive > 0:
		ttl = v.keepAlive
		m.ConfigTTL = ttl
	case ttl < 0:
		// A TTL that was left behind goes; a value that is not written anew may keep it.
		if v.pair.Grants != nil {
			v.pair.GrantsTTL = state.Forever
		}
		return
	}
	if v.perClient {
		ttl += v.interval + 24*time.Hour.Milliseconds()
	}
	if v.pair.Value != nil {
		v.pair.ValueTTL = ttl
	}
	if v.pair.Grants != nil {
		v.pair.GrantsTTL = ttl
	}
}

// eachTTL changes the times to live of all keys that exist, and says whether that changed any.
func (m *model) eachTTL(change func(ttl int64) int64) calls.Reply {
	changed := false
	for _, ttl := range []*int64{&m.ConfigTTL, &m.Overall.ValueTTL, &m.Overall.GrantsTTL, &m.Client.ValueTTL, &m.Client.GrantsTTL} {
		if *ttl == state.NoKey {
			continue
		}
		next := change(*ttl)
		changed = changed || next != *ttl
		*ttl = next
	}
	return truth(changed)
}

func (m *model) expire(c calls.Call) calls.Reply {
	ms := c.Expiry.Milliseconds()
	return m.eachTTL(func(ttl int64) int64 {
		set := false
		switch c.Op {
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

func clone(s state.State) state.State {
	s.Config = maps.Clone(s.Config)
	s.Overall.Grants, s.Client.Grants = slices.Clone(s.Overall.Grants), slices.Clone(s.Client.Grants)
	return s
}
