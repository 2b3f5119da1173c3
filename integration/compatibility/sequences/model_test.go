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

// difference is a row of the tables in docs/compatibility.md, or a property of old releases of
// Redisson. The model implements both behaviours of each, so that it computes every field.
type difference int

// The differences, by what this library does.
const (
	nonPositiveRejected  difference = iota // n <= 0 is rejected
	emptyGrantExpires                      // an empty grant, which Redisson made, expires like any other
	lostValueCounted                       // lost value: the grants are counted
	valueCapped                            // a value above the rate counts as the rate
	returnsCapped                          // value and returned permits are capped at the rate
	lostGrantsFree                         // lost grants: all permits are free
	largeRejected                          // n > 4294967295 is rejected
	driftCorrected                         // drift between the value and the grants is corrected
	availableReads                         // availablePermits only reads
	availableBounded                       // availablePermits is 0 to the rate
	releaseRemovesGrants                   // release removes grants
	failedTrySetRate                       // a failed trySetRate changes nothing
	keepAliveRemoved                       // keepAlive 0 after a keepAlive removes the TTL
	typeChanged                            // a new type removes all state
	configLost                             // a new rate after the loss of the configuration removes all state
	deficitKept                            // keepState keeps the excess
	renameMovesState                       // rename moves all keys
	copyCopiesState                        // copy copies all keys
	copyOfMissing                          // a copy of a missing limiter is an error
	unlinkRemovesState                     // unlink removes all keys
	touchesState                           // touch touches all keys
	strayTTLRemoved                        // state in use has no TTL if the configuration has none
	stateTTLExtended                       // state does not expire before its configuration
	clientTTLExtended                      // per-client state expires later than the limiter
	oldClientState                         // setRate of a PER_CLIENT limiter leaves per-client state (old)
	releaseShrinksGrants                   // release removes grants, expired ones first (Redisson's main branch)
	differenceCount
)

// protocol is the behaviour of a release of Redisson, with this library's behaviour for the
// differences in ours.
type protocol struct {
	version string
	ours    [differenceCount]bool
	decides bool // the reply to Take is a Decision
}

// protocolsOf returns the protocols of this library and of a release of Redisson. They differ in the
// documented differences alone.
func protocolsOf(version string) (ours, theirs protocol) {
	ours, theirs = protocol{version: version, decides: true}, protocol{version: version}
	for d := range ours.ours {
		ours.ours[d] = true
	}
	theirs.ours[oldClientState] = calls.AtLeast(version, "3.27.0")
	return ours, theirs
}

// applies reports whether the rule of this library applies.
func (p protocol) applies(d difference) bool { return p.ours[d] }

// outcome has the reply to a call, and the limiters of both names afterwards.
type outcome struct {
	reply calls.Reply
	main  state.State
	other state.State
}

// clone makes a copy that a model may change.
func (o outcome) clone() outcome { return outcome{o.reply, clone(o.main), clone(o.other)} }

// differences returns the differing fields of the limiters.
func (o outcome) differences(other outcome) []string {
	return append(state.Differences(o.main, other.main, slack), state.Differences(o.other, other.other, slack)...)
}
