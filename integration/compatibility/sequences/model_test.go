package sequences_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// expected returns the outcome of a call by the protocol. It implements the protocol without the
// library's code.
func (p protocol) expected(c calls.Call, before outcome, at time.Time) outcome {
	after := before.clone()
	m := &model{State: &after.main, other: &after.other, now: at.UnixMilli(), protocol: p}
	after.reply = m.do(c)
	return after
}

// view has the numbers of a limiter's configuration, and the state keys that its type selects.
type view struct {
	there     bool // initialized
	rate      int64
	interval  int64
	keepAlive int64
	perClient bool
	pair      *state.Pair
}

func viewOf(s *state.State) view {
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(s.Config[field], 10, 64)
		return n
	}
	v := view{rate: number("rate"), interval: number("interval"), keepAlive: number("keepAliveTime"),
		perClient: s.Config["type"] == "1"}
	v.there = s.Config["rate"] != "" && s.Config["interval"] != "" && s.Config["type"] != ""
	v.pair = &s.Overall
	if v.perClient {
		v.pair = &s.Client
	}
	return v
}

// model applies calls to a copy of the state in Redis.
type model struct {
	*state.State
	other *state.State // the limiter of the other name
	now   int64
	protocol
}

func (m *model) do(c calls.Call) calls.Reply {
	switch c.Op {
	case calls.TryAcquire, calls.TryAcquireUntil, calls.Acquire, calls.Take:
		return m.acquire(c)
	case calls.AvailablePermits:
		return m.available()
	case calls.Release:
		return m.release(c.Permits)
	case calls.TrySetRate:
		return m.trySetRate(c)
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
		v := viewOf(m.State)
		kind := map[bool]string{false: "OVERALL", true: "PER_CLIENT"}[v.perClient]
		return calls.Reply(fmt.Sprintf("%s %d/%v", kind, v.rate, time.Duration(v.interval)*time.Millisecond))
	case calls.Exists:
		return truth(m.Config != nil)
	case calls.Touch:
		return truth(m.Config != nil || m.applies(touchesState) && m.keepsState())
	case calls.Delete, calls.Unlink:
		if c.Op == calls.Unlink && !m.applies(unlinkRemovesState) {
			there := m.Config != nil
			m.Config, m.ConfigTTL = nil, state.NoKey
			return truth(there)
		}
		there := m.Config != nil || m.keepsState()
		*m.State = state.State{ConfigTTL: state.NoKey, Overall: none, Client: none, Read: m.Read}
		return truth(there)
	case calls.Rename, calls.RenameNX, calls.Copy, calls.CopyAndReplace:
		return m.move(c.Op)
	case calls.ClearExpire:
		return m.eachTTL(false, func(_, _ int64) int64 { return state.Forever })
	}
	if c.Expiry > 0 {
		return m.expire(c.Op.WithoutInstant(), c.Expiry)
	}
	panic(fmt.Sprintf("nothing is expected of %v", c))
}

// keepsState reports whether there is a value or a grant.
func (m *model) keepsState() bool {
	return m.Overall.Value != nil || m.Overall.Grants != nil || m.Client.Value != nil || m.Client.Grants != nil
}

var none = state.Pair{ValueTTL: state.NoKey, GrantsTTL: state.NoKey}

func truth(yes bool) calls.Reply { return calls.Reply(strconv.FormatBool(yes)) }

// set writes the value as SET does: without a time to live.
func (v view) set(value int64) {
	text := strconv.FormatInt(value, 10)
	v.pair.Value, v.pair.ValueTTL = &text, state.Forever
}

// add writes the value as INCRBY does: with the time to live that it has.
func (v view) add(n int64) {
	ttl := v.pair.ValueTTL
	value, _ := v.pair.Count()
	v.set(value + n)
	v.pair.ValueTTL = ttl
}

// keep keeps only the grants after a time.
func (v view) keep(after int64) {
	v.pair.Grants = slices.DeleteFunc(v.pair.Grants, func(g state.Grant) bool { return g.Score <= after })
	if len(v.pair.Grants) == 0 {
		v.pair.Grants, v.pair.GrantsTTL = nil, state.NoKey
	}
}

func (v view) unlink() { v.keep(1<<63 - 1) }

func clone(s state.State) state.State {
	s.Config = maps.Clone(s.Config)
	s.Overall.Grants, s.Client.Grants = slices.Clone(s.Overall.Grants), slices.Clone(s.Client.Grants)
	return s
}
