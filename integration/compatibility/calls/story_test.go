package calls_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// story is a sequence of steps on one OVERALL limiter, which both libraries make in turn. On a
// PER_CLIENT limiter the same happens to the per-client keys.
type story struct {
	name  string
	steps []step
}

// step is a call with its reply and the state after it.
type step struct {
	later time.Duration // time that passes before the call
	call  calls.Call
	reply calls.Reply
	keys  string // the five keys as state.State prints them; "" for those of the step before
}

// fixture has one server, and one Redisson and two Go Clients on it.
type fixture struct {
	version string // of Redisson
	server  servers.Version
	redis   rueidis.Client
	java    *oracle.Redisson
	golang  *rratelimiter.Client // has the id of Redisson
	own     *rratelimiter.Client // has another id

	steps int
	lacks map[calls.Op]int // steps that Go made for Java, since the release lacks the call
}

// eachVersion runs a test against every release of Redisson that is to be tested.
func eachVersion(t *testing.T, test func(t *testing.T, w *fixture)) {
	server := servers.Single(t)
	client := server.Client(t)
	serverVersion := servers.VersionOf(t, client)
	for _, version := range oracle.VersionsToTest() {
		t.Run(version, func(t *testing.T) {
			java := oracle.Start(t, version, oracle.Single(server.Addr()))
			test(t, &fixture{
				version: version,
				server:  serverVersion,
				redis:   client,
				java:    java,
				golang:  rratelimiter.New(client, rratelimiter.WithClientID(uuid.MustParse(java.ID()))),
				own:     rratelimiter.New(client),
				lacks:   make(map[calls.Op]int),
			})
		})
	}
}

func (w *fixture) libraries(name string) (golang, java calls.Library) {
	return calls.Go(w.golang.Limiter(name)), calls.Java(w.java.Limiter(name))
}

// report logs the steps that Go made because the release lacks the call.
func (w *fixture) report(t *testing.T) {
	steps, sum := []string{}, 0
	for _, op := range calls.Ops {
		if n := w.lacks[op]; n > 0 {
			steps = append(steps, fmt.Sprintf("%s %d", op, n))
			sum += n
		}
	}
	t.Logf("Redisson %s: %d steps, of which Go made %d for Java, which lacks the call: %s", w.version, w.steps, sum,
		strings.Join(steps, ", "))
	if w.version == "4.7.0" {
		require.Empty(t, steps, "the newest release has every call")
	}
}

// perClient translates the text of an OVERALL limiter.
func perClient(text string) string {
	return strings.NewReplacer("type=0", "type=1", "value", "client value", "permits", "client permits", "OVERALL",
		"PER_CLIENT").Replace(text)
}

// play plays a story on a limiter, the libraries in turn.
func (w *fixture) play(t *testing.T, s story, name string, client bool, libraries ...calls.Library) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	keys := state.KeysOf(name, w.java.ID())
	noKeepAlive, unchanged := false, ""
	for i, st := range s.steps {
		require.NoError(t, state.Age(ctx, w.redis, keys, st.later))
		by, call := libraries[i%len(libraries)], st.call
		call.PerClient = call.PerClient != client
		if call.NewName != "" {
			call.NewName = name + call.NewName
		}
		before, err := state.Read(ctx, w.redis, keys)
		require.NoError(t, err)
		reply, err := by.Do(ctx, call)
		w.steps++
		if errors.Is(err, oracle.ErrUnsupported) {
			w.lacks[call.Op]++
			t.Logf("step %d: Redisson %s lacks %s: Go calls it", i, w.version, call.Op)
			by = calls.Go(w.golang.Limiter(name))
			reply, err = by.Do(ctx, call)
		}
		step := fmt.Sprintf("step %d of %q, %v: %v", i, s.name, by, call)
		require.NoError(t, err, step)
		if need, some := calls.Needs(by, call.Op); some && w.server.Lacks(t, need) {
			require.Equal(t, calls.Lacking, reply, step)
			got, err := state.Read(ctx, w.redis, keys)
			require.NoError(t, err, step)
			require.Equal(t, before.String(), got.String(), "a call that the server refuses changes nothing: %s", step)
			by = calls.Go(w.golang.Limiter(name))
			reply = w.withoutFeature(ctx, t, by, call, st.reply)
		}

		unchanged = cmp.Or(st.keys, unchanged)
		wantReply, wantKeys := st.reply, unchanged
		got, err := state.Read(ctx, w.redis, keys)
		require.NoError(t, err, step)

		// Releases before 3.38.0 write no keepAliveTime; once Go has written it, it stays.
		switch {
		case got.Config == nil:
			noKeepAlive = !calls.AtLeast(w.version, "3.38.0")
		case by.String() == "Go" && call.Op == calls.TrySetRate && reply == "true":
			noKeepAlive = false
		}
		if i == 0 && by.String() == "Java" {
			noKeepAlive = !calls.AtLeast(w.version, "3.38.0")
		}
		if noKeepAlive {
			wantKeys = strings.Replace(wantKeys, " keepAliveTime=0", "", 1)
		}
		if client {
			wantReply, wantKeys = calls.Reply(perClient(string(wantReply))), perClient(wantKeys)
			w.shortenClientState(t, keys, &got)
		}
		require.Equal(t, wantReply, reply, step)
		require.Equal(t, wantKeys, got.String(), step)
	}
}

// shortenClientState removes the additional TTL that Go gives its own state. Here a running Redisson
// has the same id, and does not add it.
func (w *fixture) shortenClientState(t *testing.T, keys state.Keys, s *state.State) {
	t.Helper()
	for key, ttl := range map[string]*int64{keys[state.ClientValue]: &s.Client.ValueTTL,
		keys[state.ClientPermits]: &s.Client.GrantsTTL} {
		if shortenTTL(s, ttl) {
			require.NoError(t, w.redis.Do(t.Context(),
				w.redis.B().Pexpire().Key(key).Milliseconds(*ttl).Build()).Error())
		}
	}
}

// shortenTTL subtracts an interval and a day from a longer time to live.
func shortenTTL(s *state.State, ttl *int64) bool {
	interval, err := strconv.ParseInt(s.Config["interval"], 10, 64)
	slack := interval + 24*time.Hour.Milliseconds()
	if err != nil || *ttl <= slack {
		return false
	}
	*ttl -= slack
	return true
}

// withoutFeature produces the state of a call that the server lacks, so that the story can
// continue.
func (w *fixture) withoutFeature(ctx context.Context, t *testing.T, by calls.Library, call calls.Call,
	want calls.Reply) calls.Reply {
	t.Helper()
	if call.Op != calls.ExpireTime {
		if want == "false" {
			return want
		}
		call.Op = calls.Expire
	}
	reply, err := by.Do(ctx, call)
	require.NoError(t, err, call)
	return reply
}
