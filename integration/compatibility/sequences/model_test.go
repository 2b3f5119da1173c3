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

// transition is one call, or several requests of simultaneous callers of one Client, with the state
// of the limiters before it. Requests are in the order of their arrival.
type transition struct {
	requests  []calls.Call
	batches   []int // how many requests each of the shared calls carried
	before    outcome
	at        time.Time
	perClient bool // the type of the limiter
}

func newTransition(requests []calls.Call, batches []int, before outcome, at time.Time) transition {
	m := transition{requests: requests, batches: batches, before: before, at: at,
		perClient: before.main.Config["type"] == "1"}
	switch requests[0].Op {
	case calls.TrySetRate, calls.SetRate, calls.SetRateArgs, calls.UpdateRate:
		m.perClient = requests[0].PerClient
	}
	return m
}

// expected returns the replies and the state by a protocol. It implements the protocol without the
// library's code.
func (m transition) expected(p protocol) outcome {
	after := m.before.clone()
	model := &model{State: &after.main, other: &after.other, now: m.at.UnixMilli(), protocol: p}
	after.replies = nil
	switch {
	case len(m.requests) == 1:
		after.replies = []calls.Reply{model.do(m.requests[0])}
	case p.shares:
		rest := m.requests
		for _, n := range m.batches {
			after.replies = append(after.replies, model.acquire(rest[:n]...)...)
			rest = rest[n:]
		}
	default:
		for _, call := range m.requests {
			after.replies = append(after.replies, model.do(call))
		}
	}
	if len(m.requests) > 1 {
		after.merge(m.at)
	}
	return after
}

// merge joins simultaneous grants into one: requests that share a call have one, separate calls one
// each.
func (o *outcome) merge(at time.Time) {
	for _, p := range []*state.Pair{&o.main.Overall, &o.main.Client} {
		i := slices.IndexFunc(p.Grants, func(g state.Grant) bool { return g.Score > at.Add(-slack).UnixMilli() })
		if i < 0 {
			continue
		}
		one := state.Grant{Score: at.UnixMilli(), Layout: state.ByteLayout}
		for _, g := range p.Grants[i:] {
			one.Permits += g.Permits
		}
		p.Grants = append(slices.Clone(p.Grants[:i]), one)
	}
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
		return m.acquire(c)[0]
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
	case calls.Delete:
		there := m.Config != nil
		for _, p := range []*state.Pair{&m.Overall, &m.Client} {
			there = there || p.Value != nil || p.Grants != nil
		}
		*m.State = state.State{ConfigTTL: state.NoKey, Overall: none, Client: none, Read: m.Read}
		return truth(there)
	case calls.Rename, calls.RenameNX, calls.Copy, calls.CopyAndReplace:
		return m.move(c.Op)
	case calls.ClearExpire:
		return m.eachTTL(false, func(_, _ int64) int64 { return state.Forever })
	case calls.Expire, calls.ExpireIfSet, calls.ExpireIfNotSet, calls.ExpireIfGreater, calls.ExpireIfLess:
		return m.expire(c)
	}
	panic(fmt.Sprintf("nothing is expected of %v", c))
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
