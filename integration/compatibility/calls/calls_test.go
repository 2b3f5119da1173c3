package calls_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// Each release of Redisson plays the stories, and the calls that no story has.
func TestCalls_EveryRelease_GoAndJavaAgree(t *testing.T) {
	eachVersion(t, func(t *testing.T, w *world) {
		t.Run("InTurn", w.inTurn)
		t.Run("GrantsOfTheOtherSide", w.grantsOfTheOtherSide)
		t.Run("ClientsCountApart", w.clientsCountApart)
		t.Run("RenameAndCopy", w.renameAndCopy)
		t.Run("Waits", w.waits)
	})
}

func (w *world) inTurn(t *testing.T) {
	for _, s := range stories {
		for _, client := range []bool{false, true} {
			kind := map[bool]string{false: "overall", true: "per client"}[client]
			t.Run(fmt.Sprintf("%s/%s", s.name, kind), func(t *testing.T) {
				name := w.version + "/" + s.name + "/" + kind
				golang, java := w.sides(name + "/go first")
				w.tell(t, s, name+"/go first", client, golang, java)
				golang, java = w.sides(name + "/java first")
				w.tell(t, s, name+"/java first", client, java, golang)
			})
		}
	}
	w.report(t)
}

// Releases 3.16.4 to 3.16.8 write the length of the random part in 8 bytes. They can read neither
// our grants nor those of any later Redisson; this library and all others read theirs.
func (w *world) grantsOfTheOtherSide(t *testing.T) {
	ctx, name := t.Context(), w.version+"/come back"
	keys := state.KeysOf(name, w.java.ID())
	golang, java := w.sides(name)
	want := calls.Reply("true")
	if !calls.AtLeast(w.version, "3.17.0") {
		want = calls.ScriptError
	}
	for _, step := range []struct {
		by   calls.Side
		call calls.Call
		want calls.Reply
	}{
		{java, setTen(calls.SetRate), calls.Done},
		{java, take(calls.TryAcquire, 9), "true"},
		{golang, take(calls.TryAcquire, 9), "true"},
		{java, take(calls.TryAcquire, 9), want},
		{golang, take(calls.TryAcquire, 9), "true"},
	} {
		got, err := step.by.Do(ctx, step.call)
		require.NoError(t, err)
		require.Equal(t, step.want, got, "%v: %v", step.by, step.call)
		s, err := state.Read(ctx, w.redis, keys)
		require.NoError(t, err)
		t.Logf("%v: %v: %v", step.by, step.call, s)
		require.NoError(t, state.Age(ctx, w.redis, keys, 2*time.Hour))
	}
}

// Clients with ids of their own share the rate's definition and nothing else.
func (w *world) clientsCountApart(t *testing.T) {
	ctx := t.Context()
	l := w.own.Limiter(w.version + "/apart")
	golang, java := calls.Go(l), calls.Java(w.java.Limiter(l.Name()))
	do := func(by calls.Side, call calls.Call, want calls.Reply) {
		t.Helper()
		got, err := by.Do(ctx, call)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v: %v", by, call)
	}
	keeps := func(goKeeps, javaKeeps string) {
		t.Helper()
		for id, want := range map[string]string{w.own.ID(): goKeeps, w.java.ID(): javaKeeps} {
			s, err := state.Read(ctx, w.redis, state.KeysOf(l.Name(), id))
			require.NoError(t, err)
			shortenOwn(&s, &s.Client.ValueTTL)
			shortenOwn(&s, &s.Client.GrantsTTL)
			s.Config = nil
			require.Equal(t, want, s.String())
		}
	}
	call := setTen(calls.TrySetRate)
	call.PerClient = true
	do(java, call, "true")
	do(golang, call, "false")
	do(golang, take(calls.TryAcquire, 7), "true")
	keeps("client value 3; client permits 7@0s", "nothing")
	do(java, take(calls.TryAcquire, 10), "true")
	keeps("client value 3; client permits 7@0s", "client value 0; client permits 10@0s")
	do(golang, take(calls.TryAcquire, 4), "false")
	do(golang, take(calls.TryAcquire, 3), "true")
	do(java, just(calls.AvailablePermits), "0")
	do(golang, just(calls.AvailablePermits), "0")
	keeps("client value 0; client permits 7@0s 3@0s", "client value 0; client permits 10@0s")

	// A new rate resets the caller's own count and leaves the other's.
	call = rate(calls.SetRate, 5, time.Hour)
	call.PerClient = true
	do(golang, call, calls.Done)
	keeps("nothing", "client value 0; client permits 10@0s")
	do(java, take(calls.TryAcquire, 1), "false")
	do(golang, take(calls.TryAcquire, 5), "true")
	do(java, call, calls.Done)
	if calls.AtLeast(w.version, "3.27.0") {
		keeps("client value 0; client permits 5@0s", "nothing")
	} else {
		keeps("client value 0; client permits 5@0s", "client value 0; client permits 10@0s")
	}
	do(java, just(calls.Delete), "true")
	keeps("client value 0; client permits 5@0s", "nothing")
}

// Copies and new names have the configuration; the state goes along in Go alone.
func (w *world) renameAndCopy(t *testing.T) {
	full := ten + "; value 6; permits 4@0s"
	tests := []struct {
		op               calls.Op
		target           string // what there is under the new name before: all, or nothing
		reply            calls.Reply
		goOld, goNew     string
		javaOld, javaNew string
	}{
		{op: calls.Rename, target: "nothing", reply: calls.Done, goOld: "nothing", goNew: full,
			javaOld: "value 6; permits 4@0s", javaNew: ten},
		{op: calls.RenameNX, target: "nothing", reply: "true", goOld: "nothing", goNew: full,
			javaOld: "value 6; permits 4@0s", javaNew: ten},
		{op: calls.RenameNX, target: "other", reply: "false", goOld: full, goNew: "other", javaOld: full,
			javaNew: "other"},
		{op: calls.Copy, target: "nothing", reply: "true", goOld: full, goNew: full, javaOld: full, javaNew: ten},
		{op: calls.Copy, target: "other", reply: "false", goOld: full, goNew: "other", javaOld: full, javaNew: "other"},
		{op: calls.CopyAndReplace, target: "nothing", reply: "true", goOld: full, goNew: full, javaOld: full,
			javaNew: ten},
		{op: calls.CopyAndReplace, target: "other", reply: "true", goOld: full, goNew: full, javaOld: full,
			javaNew: ten + "; value 1; permits 6@0s"},
		{op: calls.Rename, target: "other", reply: calls.Done, goOld: "nothing", goNew: full,
			javaOld: "value 6; permits 4@0s",
			javaNew: ten + "; value 1; permits 6@0s"},
	}
	const other = "rate=7 interval=3600000 type=0 keepAliveTime=0; value 1; permits 6@0s"
	ctx := t.Context()
	for i, test := range tests {
		for _, by := range []string{"Go", "Java"} {
			t.Run(fmt.Sprintf("%s by %s onto %s", test.op, by, test.target), func(t *testing.T) {
				name := fmt.Sprintf("%s/%d/%s", w.version, i, by)
				newName := name + "/new"
				read := func(name string) string {
					s, err := state.Read(ctx, w.redis, state.KeysOf(name, w.java.ID()))
					require.NoError(t, err)
					return s.String()
				}
				golang, java := w.sides(name)
				set := func(by calls.Side, rate calls.Call, permits int64) {
					for _, call := range []calls.Call{rate, take(calls.TryAcquire, permits)} {
						_, err := by.Do(ctx, call)
						require.NoError(t, err)
					}
				}
				// What a limiter is made of was made by the other side, but for the fields that old
				// releases do not write.
				set(golang, setTen(calls.SetRate), 4)
				require.Equal(t, full, read(name))
				if test.target == "other" {
					set(calls.Go(w.golang.Limiter(newName)), rate(calls.SetRate, 7, time.Hour), 6)
					require.Equal(t, other, read(newName))
				}
				side, wantOld, wantNew := golang, test.goOld, test.goNew
				if by == "Java" {
					side, wantOld, wantNew = java, test.javaOld, test.javaNew
				}
				if wantNew == "other" {
					wantNew = other
				}
				got, err := side.Do(ctx, calls.Call{Op: test.op, NewName: newName})
				if errors.Is(err, oracle.ErrUnsupported) {
					t.Logf("Redisson %s lacks %s", w.version, test.op)
					return
				}
				require.NoError(t, err)
				wantReply := test.reply
				if need, some := calls.Needs(side, test.op); some && w.server.Lacks(t, need) {
					wantReply, wantOld, wantNew = calls.Lacking, full, test.target
					if test.target == "other" {
						wantNew = other
					}
					// Where there is nothing to copy the server is not asked to.
					if by == "Go" && test.reply == "false" {
						wantReply = test.reply
					}
				}
				require.Equal(t, wantReply, got)
				require.Equal(t, wantOld, read(name))
				require.Equal(t, wantNew, read(newName))
			})
		}
	}
}

// The waits are real, and short: each side is served once the permits that the other one took are
// back.
func (w *world) waits(t *testing.T) {
	for _, order := range []string{"Go waits for Java", "Java waits for Go"} {
		t.Run(order, func(t *testing.T) {
			const interval = 300 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			waits, takes := w.sides(w.version + "/" + order)
			if order == "Java waits for Go" {
				waits, takes = takes, waits
			}
			_, err := takes.Do(ctx, rate(calls.SetRate, 4, interval))
			require.NoError(t, err)
			for _, call := range []calls.Call{
				take(calls.Acquire, 4), just(calls.AcquireOne),
				until(calls.TryAcquireUntil, 4, 10*time.Second), until(calls.TryAcquireOneUntil, 0, 10*time.Second),
			} {
				// The wait begins with no permit left, so it cannot end before the interval has:
				// the grant is older than its reply.
				_, err := takes.Do(ctx, take(calls.Acquire, 4))
				require.NoError(t, err)
				got, err := waits.Do(ctx, call)
				require.NoError(t, err, call)
				if waits.String() == "Java" && !calls.AtLeast(w.version, "3.17.0") {
					require.Equal(t, calls.ScriptError, got, "it cannot read our grants: %v", call)
					return
				}
				require.Contains(t, []calls.Reply{"true", calls.Done}, got, call)
				s, err := state.Read(ctx, w.redis, state.KeysOf(w.version+"/"+order, w.java.ID()))
				require.NoError(t, err)
				require.Len(t, s.Overall.Grants, 1, "the first grant has left: %v", s)
			}
		})
	}
}

// Every call has a story, so that none is forgotten.
func TestCalls_Stories_CoverEveryCall(t *testing.T) {
	told := make(map[calls.Op]bool)
	for _, s := range stories {
		for _, st := range s.steps {
			told[st.call.Op] = true
		}
	}
	for _, op := range []calls.Op{calls.Copy, calls.CopyAndReplace} {
		told[op] = true // in renameAndCopy, which looks at two limiters
	}
	told[calls.Take] = true // Redisson has no such call: the random sequences hold it to a model
	for _, op := range calls.Ops {
		assert.True(t, told[op], op)
	}
}
