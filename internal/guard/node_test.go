package guard

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// In a flood of requests over their limit, a late call is no outage: each denial is an answer.
func TestGuard_FloodOfDenials_LateCallIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := new(recorder)
		g := New(limit.Open, deadline, reports.changed)
		denies := takes(func(context.Context) (rratelimiter.Decision, error) {
			return rratelimiter.Decision{Limit: 1, RetryAfter: time.Minute}, nil
		})
		hangs := takes(func(ctx context.Context) (rratelimiter.Decision, error) {
			<-ctx.Done()
			return rratelimiter.Decision{}, ctx.Err()
		})
		var late sync.WaitGroup
		for i := range 1000 {
			if i%15 == 0 {
				late.Go(func() {
					assert.Equal(t, limit.FailedOpen, g.Ask(t.Context(), Request{Limiter: hangs, Permits: 1}).Result)
				})
			}
			require.Equal(t, limit.Rejected, g.Ask(t.Context(), Request{Limiter: denies, Permits: 1}).Result)
			time.Sleep(deadline / 10)
		}
		late.Wait()
		assert.Empty(t, reports.changes)
	})
}

// nodeChanges records the calls of a callback, with the node.
type nodeChanges struct {
	mu   sync.Mutex
	text []string
}

func (c *nodeChanges) changed(node string, up bool, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, fmt.Sprint(node, " ", up))
}

func (c *nodeChanges) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.text, ", ")
}

// Names in the slots of each node.
const onNodeA, onNodeB = "{b}", "{a}"

// One of two masters hangs, with much and with little traffic. Its requests are decided by the mode at
// once, after the first, and those of the other one by Redis.
func TestGuard_OneMasterHangs_OthersDecide(t *testing.T) {
	for name, pause := range map[string]time.Duration{"much": time.Millisecond, "little": 3 * deadline} {
		for mode, want := range map[limit.FailureMode]limit.Result{
			limit.Open: limit.FailedOpen, limit.Closed: limit.FailedClosed, 1: limit.Acquired,
		} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
					client, changes := rratelimiter.New(c.Conn), new(nodeChanges)
					g := New(mode, deadline, changes.changed)
					minute := limit.FixedWindow{Permits: 1_000_000, Interval: time.Minute}
					ask := func(name string) Answer {
						l := limit.New(client, name, minute)
						return g.Ask(c.Context(), Request{Limiter: l, Policies: []limit.Policy{minute}, Permits: 1})
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
						begin = time.Now()
						a = ask(onNodeA)
						require.Equal(t, limit.Acquired, a.Result, "%v", a.Err)
						require.False(t, a.Local)
						require.Less(t, time.Since(begin), deadline/2)
						time.Sleep(pause)
					}
					assert.Equal(t, "b:1 false", changes.all())
					c.Delay(redistest.NodeB, 0)
					ask(onNodeB)
					time.Sleep(2 * time.Minute) // what was on its way arrives
					ask(onNodeB)
					time.Sleep(2 * maxProbePause)
					a := ask(onNodeB)
					assert.Equal(t, limit.Acquired, a.Result)
					assert.False(t, a.Local)
					assert.Equal(t, "b:1 false, b:1 true", changes.all())
				})
			})
		}
	}
}

// An error names the limiter, the node and the deadline.
func TestGuard_MasterHangs_ErrorNamesIt(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		client := rratelimiter.New(c.Conn)
		g := New(limit.Closed, deadline, nil)
		q := Request{Limiter: limit.New(client, onNodeB, limit.FixedWindow{Permits: 9, Interval: time.Hour}), Permits: 1}
		require.Equal(t, limit.Acquired, g.Ask(c.Context(), q).Result)
		time.Sleep(2 * time.Second)
		c.Delay(redistest.NodeB, time.Minute)
		assert.EqualError(t, g.Ask(c.Context(), q).Err,
			`rratelimiter: limiter "{a}": Redis at b:1: no answer within 100ms: context deadline exceeded`)
		err := g.Ask(c.Context(), q).Err
		assert.EqualError(t, err, `rratelimiter: limiter "{a}": Redis at b:1 is down: the call was not sent`)
		assert.ErrorIs(t, err, ErrDown)
		c.Delay(redistest.NodeB, 0)
	})
}

// While Redis answers reads and refuses writes, the outage lasts.
func TestGuard_WritesFail_OutageLasts(t *testing.T) {
	for _, refusal := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			client, changes := rratelimiter.New(f.Conn), new(nodeChanges)
			g := New(limit.Open, deadline, changes.changed)
			l := limit.New(client, "name", limit.FixedWindow{Permits: 9, Interval: time.Hour})
			q := Request{Limiter: l, Permits: 1}
			var last atomic.Value // the SHA of the script that was called last
			var refused atomic.Value
			refused.Store("")
			f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
				if !strings.EqualFold(command, "EVALSHA") {
					return false
				}
				last.Store(args[0])
				if args[0] == refused.Load() {
					peer.WriteError(refusal)
					return true
				}
				return false
			})
			require.Equal(t, limit.Acquired, g.Ask(t.Context(), q).Result)
			refused.Store(last.Load())
			time.Sleep(time.Second)
			for range 100 {
				require.Equal(t, limit.FailedOpen, g.Ask(t.Context(), q).Result)
				_, err := l.Peek(t.Context())
				require.NoError(t, err)
				time.Sleep(deadline)
			}
			assert.Equal(t, "in-memory false", changes.all())
			refused.Store("")
			time.Sleep(2 * maxProbePause)
			assert.Equal(t, "in-memory false, in-memory true", changes.all())
			assert.Equal(t, limit.Acquired, g.Ask(t.Context(), q).Result)
			d, err := l.Peek(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 7, d[0].Remaining, "probes take none")
		})
	}
}
