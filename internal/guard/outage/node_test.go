package outage

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Names in the slots of each node.
const onNodeA, onNodeB = "{b}", "{a}"

// One of two masters hangs, with much and with little traffic. Its requests are decided by the mode at
// once, after the first, and those of the other one by Redis. Errors name the limiter, the node and the
// deadline.
func TestGuard_OneMasterHangs_OthersDecide(t *testing.T) {
	for name, pause := range map[string]time.Duration{"much": time.Millisecond, "little": 3 * deadline} {
		for mode, want := range map[limit.FailureMode]limit.Result{
			limit.Open: limit.FailedOpen, limit.Closed: limit.FailedClosed, 1: limit.Acquired,
		} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
					client, changes := rratelimiter.New(c.Conn), new(recorder)
					g := withMode(mode, deadline, changes.changed)
					minute := limit.FixedWindow{Permits: 1_000_000, Interval: time.Minute}
					ask := func(name string) Answer {
						l := limit.New(client, name, minute)
						return g.Decide(c.Context(), Demand{Limiter: l, Permits: 1})
					}
					for _, name := range []string{onNodeA, onNodeB} {
						require.Equal(t, limit.Acquired, ask(name).Result)
						time.Sleep(2 * time.Second) // the slots are known
					}
					c.Delay(redistest.NodeB, time.Minute)
					for i := range 50 {
						begin := time.Now()
						a := ask(onNodeB)
						require.Equal(t, want, a.Result)
						require.Equal(t, mode == 1, a.Local)
						require.Equal(t, i == 0, time.Since(begin) > 0, "only the first one waits")
						why := ": no answer within 100ms: context deadline exceeded"
						if i > 0 {
							why = " is down: the call was not sent"
							require.ErrorIs(t, a.Err, ErrDown)
						}
						require.EqualError(t, a.Err, `rratelimiter: limiter "{a}": Redis at b:1`+why)
						begin = time.Now()
						a = ask(onNodeA)
						require.Equal(t, limit.Acquired, a.Result, "%v", a.Err)
						require.False(t, a.Local)
						require.Less(t, time.Since(begin), deadline/2)
						time.Sleep(pause)
					}
					assert.Equal(t, "b:1 false", changes.nodes())
					c.Delay(redistest.NodeB, 0)
					ask(onNodeB)
					time.Sleep(2 * time.Minute) // what was on its way arrives
					ask(onNodeB)
					time.Sleep(2 * maxProbePause)
					a := ask(onNodeB)
					assert.Equal(t, limit.Acquired, a.Result)
					assert.False(t, a.Local)
					assert.Equal(t, "b:1 false, b:1 true", changes.nodes())
				})
			})
		}
	}
}

// A master hangs, and another one takes over its slots. The client sends calls to the one that hangs until
// their connections close: its outage lasts so long, and the other one is not blamed. Then no request asks
// it again, so its outage ends, also if the callback panics.
func TestGuard_AnotherMasterTakesOver_OutageEndsOnceCallsGoThere(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		client, changes := rratelimiter.New(c.Conn), new(recorder)
		g := withMode(limit.Open, deadline, func(node string, up bool, err error) {
			changes.changed(node, up, err)
			if up {
				panic("a callback")
			}
		})
		q := Demand{Limiter: limit.New(client, onNodeB, limit.FixedWindow{Permits: 9, Interval: time.Hour}), Permits: 1}
		require.Equal(c, limit.Acquired, g.Decide(c.Context(), q).Result)
		time.Sleep(2 * time.Second) // the slots are known
		c.Delay(redistest.NodeB, time.Minute)
		require.Equal(c, limit.FailedOpen, g.Decide(c.Context(), q).Result)
		c.Serve(redistest.NodeA)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			begin := time.Now()
			a := g.Decide(c.Context(), q)
			require.ErrorContains(c, a.Err, "Redis at b:1 is down")
			require.Zero(c, time.Since(begin))
		}
		require.Equal(c, "b:1 false", changes.nodes())
		c.Disconnect(redistest.NodeB)
		time.Sleep(3 * time.Second)
		g.Decide(c.Context(), q)
		time.Sleep(2 * time.Second)
		assert.Equal(c, limit.Acquired, g.Decide(c.Context(), q).Result)
		assert.Equal(c, "b:1 false, b:1 true", changes.nodes())
		changes.mu.Lock()
		defer changes.mu.Unlock()
		assert.Equal(c, "true rratelimiter: Redis at b:1 has not answered: its calls go to Redis at a:1 now",
			changes.changes[1])
	})
}

// The slots are not known yet, and one of two masters hangs. The other one decides its requests. A request
// that waits learns that its node hangs, also if its slot becomes known meanwhile.
func TestGuard_SlotsAreUnknown_OneMasterHangs_OthersDecide(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		c.Serve()
		client := rratelimiter.New(c.Conn)
		g := withMode(limit.Open, deadline, nil)
		ask := func(ctx context.Context, name string, wait time.Duration) Answer {
			l := limit.New(client, name, limit.FixedWindow{Permits: 100, Interval: time.Hour})
			return g.Decide(ctx, Demand{Limiter: l, Permits: 100, Wait: wait, MaxWaiting: 9})
		}
		first := ask(c.Context(), onNodeB, 0)
		require.Equal(c, limit.Acquired, first.Result, "%v", first.Err)
		var ended time.Time
		go func() {
			assert.Equal(c, limit.FailedOpen, ask(c.Context(), onNodeB, 2*time.Hour).Result)
			ended = time.Now()
		}()
		time.Sleep(time.Second)
		c.Delay(redistest.NodeB, time.Minute)
		hung := time.Now()
		c.Serve(redistest.NodeA, redistest.NodeB)
		for i := range 20 {
			a := ask(c.Context(), fmt.Sprint(onNodeA, i), 0)
			require.Equal(c, limit.Acquired, a.Result, "%v", a.Err)
			time.Sleep(deadline / 10)
		}
		time.Sleep(3 * deadline)
		synctest.Wait()
		assert.LessOrEqual(c, ended.Sub(hung), 3*deadline+3*time.Millisecond)
		assert.False(c, ended.IsZero())
	})
}

// The error reply of one key is an answer of its node, also in little traffic. If it says that the node
// cannot serve, it is none.
func TestGuard_ErrorReplies_AreAnswers(t *testing.T) {
	for reply, down := range map[string]bool{
		"NOPERM this user has no permissions to access one of the keys":      false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":  false,
		"ERR user_script:7: attempt to compare number with nil":              false,
		"LOADING Redis is loading the dataset in memory":                     true,
		"ERR Error running script: @user_script:1: -OOM command not allowed": true,
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			client, changes := rratelimiter.New(f.Conn), new(recorder)
			g := withMode(limit.Closed, deadline, changes.changed)
			f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
				bad := strings.Contains(fmt.Sprint(args), ":probe") || strings.Contains(fmt.Sprint(args), "{bad}")
				if bad {
					peer.WriteError(reply)
				}
				return bad
			})
			ask := func(name string) limit.Result {
				l := limit.New(client, name, limit.FixedWindow{Permits: 9, Interval: time.Hour})
				return g.Decide(t.Context(), Demand{Limiter: l, Permits: 1}).Result
			}
			for range 8 {
				require.Equal(t, limit.FailedClosed, ask("bad"))
				require.Equal(t, down, ask("good") != limit.Acquired, reply)
				time.Sleep(3 * deadline)
			}
			assert.Equal(t, down, changes.nodes() != "", reply)
		})
	}
}

// A program may lack the right to the key of a probe: the refusal is an answer.
func TestGuard_ProbeIsRefused_OutageEnds(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client, changes := rratelimiter.New(f.Conn), new(recorder)
		g := withMode(limit.Open, deadline, changes.changed)
		l := limit.New(client, "name", limit.FixedWindow{Permits: 9, Interval: time.Hour})
		q := Demand{Limiter: l, Permits: 1}
		f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
			refused := strings.Contains(fmt.Sprint(args), ":probe")
			if refused {
				peer.WriteError("NOPERM this user has no permissions to access one of the keys")
			}
			return refused
		})
		require.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
		f.Latency.Store(int64(time.Second))
		time.Sleep(2 * deadline)
		require.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result)
		f.Latency.Store(0)
		time.Sleep(3 * time.Second)
		assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
		assert.Equal(t, "in-memory false, in-memory true", changes.nodes())
	})
}

// While Redis answers reads and refuses writes, the outage lasts.
func TestGuard_WritesFail_OutageLasts(t *testing.T) {
	for _, refusal := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			client, changes := rratelimiter.New(f.Conn), new(recorder)
			g := withMode(limit.Open, deadline, changes.changed)
			l := limit.New(client, "name", limit.FixedWindow{Permits: 9, Interval: time.Hour})
			q := Demand{Limiter: l, Permits: 1}
			var last atomic.Value // the SHA of the script that was called last
			var refused atomic.Value
			refused.Store("")
			f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
				switch strings.ToUpper(command) {
				case "EVALSHA":
					last.Store(args[0])
				case "SET": // of a probe
				default:
					return false
				}
				if refused.Load() != "" && (command == "SET" || args[0] == refused.Load()) {
					peer.WriteError(refusal)
					return true
				}
				return false
			})
			require.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
			refused.Store(last.Load())
			time.Sleep(time.Second)
			for range 100 {
				require.Equal(t, limit.FailedOpen, g.Decide(t.Context(), q).Result)
				_, err := l.Peek(t.Context())
				require.NoError(t, err)
				time.Sleep(deadline)
			}
			assert.Equal(t, "in-memory false", changes.nodes())
			refused.Store("")
			time.Sleep(2 * maxProbePause)
			assert.Equal(t, "in-memory false, in-memory true", changes.nodes())
			assert.Equal(t, limit.Acquired, g.Decide(t.Context(), q).Result)
			d, err := l.Peek(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 7, d[0].Remaining, "probes take none")
		})
	}
}

// unreached is a client that does not know its node until it reaches Redis.
type unreached struct {
	rueidis.Client
	reached atomic.Bool
}

func (u *unreached) Nodes() map[string]rueidis.Client {
	if !u.reached.Load() {
		return nil
	}
	return u.Client.Nodes()
}

// The node is unknown until Redis is reached. A gauge by node returns to 0.
func TestGuard_StartWithoutRedis_ReportsOneNode(t *testing.T) {
	_, address, come := redistest.Away(t)
	conn, err := rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true,
		DisableCache: true})
	require.NoError(t, err)
	unready := &unreached{Client: conn}
	t.Cleanup(unready.Close)
	changes := new(recorder)
	limiter := limit.New(rratelimiter.New(unready), "a", limit.FixedWindow{Permits: 5, Interval: time.Hour})
	g := withMode(limit.Open, deadline, changes.changed)
	require.Equal(t, limit.FailedOpen, g.Decide(t.Context(), Demand{Limiter: limiter, Permits: 1}).Result)
	unready.reached.Store(true)
	come()
	assert.Eventually(t, func() bool { return changes.nodes() == " false,  true" }, time.Minute, deadline/10)
}
